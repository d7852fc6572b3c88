// What becomes of sums: result = relu(scale[column] * factor * sum + bias[column] + added), each part where it is wanted.
#pragma once
#include "fragments.cuh"

struct Output {
    void *first;
    const void *added;                // as the result lies; or none
    const float *scale, *bias;        // a number a column; or none
    i64 pitch;                        // elements from a row to the next
    int rows, columns;
    float factor;
    int relu, aligned;                // aligned: rows of the result, and of what is added, begin at multiples of 16 bytes
};

// Where a row of the result begins, in elements: one after the other; and so are the results of parts of the steps.
struct RowsInOrder {
    const Output &output;
    const int part;
    METHOD i64 offset(int row) const { return (static_cast<i64>(part) * output.rows + row) * output.pitch; }
};

template <class Type, class Places> struct Finish {
    typedef typename Type::Sum Sum;
    typedef typename Type::Result Result;
    enum { COUNT = 16 / sizeof(Result) };
    typedef Vector<Result, COUNT> Results;

    const Output &output;
    const Places places;

    // `more` is what is added, if something is.
    METHOD Result finished(Sum sum, int column, Result more) const
    {
        if constexpr (SAME<Sum, int>::YES)
            return sum;
        else {
            Sum value = static_cast<Sum>(output.factor) * sum;
            if (output.scale) value *= static_cast<Sum>(output.scale[column]);
            if (output.bias) value += static_cast<Sum>(output.bias[column]);
            if (output.added) value += Type::taken(more);
            return Type::stored(output.relu && !(value > 0) ? (value != value ? value : Sum(0)) : value);
        }
    }

    // COUNT neighbours of a row, as far as they exist.
    METHOD void put(const Sum (&sums)[COUNT], int row, int column) const
    {
        if (row >= output.rows || column >= output.columns) return;
        const i64 at = places.offset(row) + column;
        Result *target = static_cast<Result *>(output.first) + at;
        const Result *added = output.added ? static_cast<const Result *>(output.added) + at : nullptr;
        if (output.aligned && column + COUNT <= output.columns)
            put_all(sums, column, target, added);
        else
            UNROLLED
            for (int i = 0; i < COUNT; ++i)
                if (column + i < output.columns)
                    target[i] = finished(sums[i], column + i, added ? added[i] : Result(0));
    }

    METHOD void put_all(const Sum (&sums)[COUNT], int column, Result *target, const Result *added) const
    {
        Results results = {};
        if (added) results = *reinterpret_cast<const Results *>(added);
        UNROLLED
        for (int i = 0; i < COUNT; ++i) results.values[i] = finished(sums[i], column + i, results.values[i]);
        *reinterpret_cast<Results *>(target) = results;
    }
};

// Store the strips of a warp, whose tile begins at (row, column), by its own buffer in shared memory.
template <class Engine, class Finish, int INDEX = 0>
WORD void store_strips(const Engine &engine, const Finish &finish, u32 buffer, int row, int column, int lane)
{
    if constexpr (INDEX < Engine::STRIPS) {
        typedef typename Engine::Sum Sum;
        enum { ACROSS = STRIP / Finish::COUNT };
        wait_for_warp();
        engine.template stage<INDEX>(buffer);
        wait_for_warp();
        UNROLLED
        for (int turn = 0; turn < Engine::STRIP_ROWS * ACROSS / 32; ++turn) {
            const int index = 32 * turn + lane;
            const int down = index / ACROSS, across = index % ACROSS * Finish::COUNT;
            Sum sums[Finish::COUNT];
            UNROLLED
            for (int i = 0; i < Finish::COUNT; i += static_cast<int>(16 / sizeof(Sum))) {
                typedef Vector<Sum, static_cast<int>(16 / sizeof(Sum))> Sums;
                const Sums part = load_shared<Sums>(buffer + (down * STRIP_PITCH + across + i) * sizeof(Sum));
                UNROLLED
                for (int k = 0; k < static_cast<int>(16 / sizeof(Sum)); ++k) sums[i + k] = part.values[k];
            }
            finish.put(sums, row + engine.strip_row(INDEX) + down, column + engine.strip_column(INDEX) + across);
        }
        store_strips<Engine, Finish, INDEX + 1>(engine, finish, buffer, row, column, lane);
    }
}

template <class Engine> struct Strip {
    enum { NBYTES = Engine::STRIP_ROWS * STRIP_PITCH * sizeof(typename Engine::Sum) };
};

// The sums of all parts of the steps, added up in their order, by threads that each have neighbours of a row.
template <class Type, class Places>
WORD void join_parts(const void *parts, int count, const Output &output, const Places &places)
{
    typedef typename Type::Sum Sum;
    typedef Finish<Type, Places> Finish;
    const int vectors = (output.columns + Finish::COUNT - 1) / Finish::COUNT;
    const i64 total = static_cast<i64>(output.rows) * vectors, apart = static_cast<i64>(output.rows) * output.columns;
    for (i64 index = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; index < total;
         index += static_cast<i64>(gridDim.x) * blockDim.x) {
        const int row = static_cast<int>(index / vectors), column = static_cast<int>(index % vectors) * Finish::COUNT;
        Sum sums[Finish::COUNT] = {};
        const Sum *part = static_cast<const Sum *>(parts) + static_cast<i64>(row) * output.columns + column;
        for (int i = 0; i < count; ++i, part += apart)
            UNROLLED
            for (int k = 0; k < Finish::COUNT; ++k)
                if (column + k < output.columns) sums[k] += part[k];
        Finish{output, places}.put(sums, row, column);
    }
}
