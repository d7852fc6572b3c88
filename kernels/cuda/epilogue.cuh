// What becomes of sums: result = relu(scale[column] * factor * sum + bias[column] + added), each part where it is
// wanted.
#pragma once
#include "fragments.cuh"

struct Output {
    void *first;
    const void *added;                // as the result lies; or none
    const float *scale, *bias;        // a number a column; or none
    i64 pitch;                        // elements from a row to the next
    int rows, columns;
    float factor;
    int relu, plain, aligned;         // plain: the result is the sum; aligned: all rows begin at multiples of 16 bytes
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
    enum { COUNT = 16 / sizeof(Result), REAL = !SAME<Sum, int>::YES };
    typedef Vector<Result, COUNT> Results;

    const Output &output;
    const Places places;

    // Where the result of a row and a column is to lie; nowhere, if there is no such row.
    METHOD Result *place(int row, int column) const
    {
        return row < output.rows ? static_cast<Result *>(output.first) + places.offset(row) + column : nullptr;
    }

    METHOD const Result *added_to(const Result *target) const
    {
        const i64 apart = static_cast<const u8 *>(output.added) - static_cast<const u8 *>(output.first);
        return reinterpret_cast<const Result *>(reinterpret_cast<const u8 *>(target) + apart);
    }

    METHOD Sum finished(Sum sum, int column, const Result *target) const
    {
        if constexpr (!REAL) return sum;
        Sum value = static_cast<Sum>(output.factor) * sum;
        if (output.scale) value *= static_cast<Sum>(output.scale[column]);
        if (output.bias) value += static_cast<Sum>(output.bias[column]);
        if (output.added) value += Type::taken(*added_to(target));
        return output.relu && value < 0 ? Sum(0) : value;
    }

    // The same for COUNT neighbours, four numbers of a column at a time.
    METHOD void finish(Sum (&sums)[COUNT], int column, const Result *target) const
    {
        if constexpr (!REAL) return;
        Results more = {};
        if (output.added) more = *reinterpret_cast<const Results *>(added_to(target));
        UNROLLED
        for (int i = 0; i < COUNT; ++i) sums[i] *= static_cast<Sum>(output.factor);
        if (output.scale) combine(sums, output.scale + column, [](Sum &sum, float by) { sum *= static_cast<Sum>(by); });
        if (output.bias) combine(sums, output.bias + column, [](Sum &sum, float by) { sum += static_cast<Sum>(by); });
        if (output.added)
            UNROLLED
            for (int i = 0; i < COUNT; ++i) sums[i] += Type::taken(more.values[i]);
        if (output.relu)
            UNROLLED
            for (int i = 0; i < COUNT; ++i) sums[i] = sums[i] < 0 ? Sum(0) : sums[i];
    }

    template <class Use> WORD void combine(Sum (&sums)[COUNT], const float *numbers, const Use &use)
    {
        enum { AT_ONCE = static_cast<int>(COUNT) < 4 ? static_cast<int>(COUNT) : 4 };
        typedef Vector<float, AT_ONCE> Numbers;
        UNROLLED
        for (int i = 0; i < COUNT; i += AT_ONCE) {
            const Numbers by = *reinterpret_cast<const Numbers *>(numbers + i);
            UNROLLED
            for (int k = 0; k < AT_ONCE; ++k) use(sums[i + k], by.values[k]);
        }
    }

    METHOD bool whole(int column) const { return output.aligned && column + COUNT <= output.columns; }

    // COUNT neighbours, all of which exist.
    METHOD void put(Sum (&sums)[COUNT], int column, Result *target) const
    {
        if (!output.plain) finish(sums, column, target);
        Results results;
        Type::store(results.values, sums);
        *reinterpret_cast<Results *>(target) = results;
    }

    METHOD void put_one(Sum sum, int column, Result *target) const
    {
        if (column < output.columns) *target = Type::stored(finished(sum, column, target));
    }
};

// Where a lane has parts of rows: COUNT neighbours each of some of the ROWS rows of a strip of COLUMNS columns.
template <class Finish, int ROWS, int COLUMNS> struct Lanes {
    enum { ACROSS = COLUMNS / Finish::COUNT, APART = 32 / ACROSS, TURNS = ROWS / APART };
    const int row, column;
    typename Finish::Result *places[TURNS];

    METHOD Lanes(int lane) : row(lane / ACROSS), column(lane % ACROSS * Finish::COUNT) {}

    METHOD void find(const Finish &finish, int first_row, int first_column)
    {
        UNROLLED
        for (int turn = 0; turn < TURNS; ++turn)
            places[turn] = finish.place(first_row + row + turn * APART, first_column + column);
    }

    METHOD u32 staged(int turn, int pitch) const { return (row + turn * APART) * pitch + column; }
};

// Store strips of a warp's tile, by a buffer in shared memory that is its own.
template <class Engine, class Finish> struct Strips {
    typedef typename Finish::Sum Sum;
    typedef typename Finish::Result Result;
    typedef Lanes<Finish, Engine::STRIP_ROWS, STRIP> Own;

    const Engine &engine;
    const Finish &finish;
    const u32 buffer;
    const int row, column;  // of the tile

    template <int INDEX> METHOD void store(Own &own) const
    {
        if constexpr (INDEX < Engine::STRIPS) {
            if constexpr (INDEX % Engine::STRIPS_ACROSS == 0) own.find(finish, row + engine.strip_row(INDEX), column);
            wait_for_warp();
            engine.template stage<INDEX>(buffer);
            wait_for_warp();
            UNROLLED
            for (int turn = 0; turn < Own::TURNS; ++turn) {
                const u32 from = buffer + own.staged(turn, STRIP_PITCH) * static_cast<u32>(sizeof(Sum));
                const int first = engine.strip_column(INDEX);
                if (own.places[turn]) put(own.places[turn] + first, column + own.column + first, from);
            }
            store<INDEX + 1>(own);
        }
    }

    METHOD void put(Result *target, int column, u32 from) const
    {
        if (finish.whole(column)) {
            Sum sums[Finish::COUNT];
            load_all(sums, from);
            finish.put(sums, column, target);
        } else
            ROLLED
            for (int i = 0; i < Finish::COUNT; ++i)
                finish.put_one(load_shared<Sum>(from + i * static_cast<u32>(sizeof(Sum))), column + i, target + i);
    }

    WORD void load_all(Sum (&sums)[Finish::COUNT], u32 from)
    {
        enum { AT_ONCE = 16 / sizeof(Sum) };
        UNROLLED
        for (int i = 0; i < Finish::COUNT; i += AT_ONCE) {
            const u32 at = from + i * static_cast<u32>(sizeof(Sum));
            const Vector<Sum, AT_ONCE> part = load_shared<Vector<Sum, AT_ONCE>>(at);
            UNROLLED
            for (int k = 0; k < AT_ONCE; ++k) sums[i + k] = part.values[k];
        }
    }
};

// The same where nothing is done to sums but that they become results of two bytes, and where all columns exist: they
// are brought to shared memory as such, which is half as many bytes.
template <class Engine, class Finish> struct PackedStrips {
    typedef Lanes<Finish, Engine::STRIP_ROWS, PACKED> Own;
    typedef Vector<u32, 4> Words;

    const Engine &engine;
    const Finish &finish;
    const u32 buffer;
    const int row, column;

    template <int INDEX> METHOD void store(Own &own) const
    {
        if constexpr (INDEX < Engine::STRIPS) {
            if constexpr (INDEX % Engine::STRIPS_ACROSS == 0) own.find(finish, row + engine.strip_row(INDEX), column);
            wait_for_warp();
            engine.template stage_packed<INDEX>(buffer);
            wait_for_warp();
            UNROLLED
            for (int turn = 0; turn < Own::TURNS; ++turn) {
                const Words words = load_shared<Words>(buffer + 2 * own.staged(turn, PACKED_PITCH));
                if (own.places[turn]) *reinterpret_cast<Words *>(own.places[turn] + engine.strip_column(INDEX)) = words;
            }
            store<INDEX + PACKED / STRIP>(own);
        }
    }
};

// Store what a warp has of a tile that begins at (row, column).
template <class Engine, class Finish>
WORD void store_strips(const Engine &engine, const Finish &finish, u32 buffer, int row, int column, int lane)
{
    if constexpr (sizeof(typename Finish::Result) == 2 && Engine::STRIPS_ACROSS % 2 == 0) {
        const int last = column + engine.strip_column(Engine::STRIPS_ACROSS - 1) + STRIP;
        if (finish.output.plain && finish.output.aligned && last <= finish.output.columns) {
            Lanes<Finish, Engine::STRIP_ROWS, PACKED> own(lane);
            PackedStrips<Engine, Finish>{engine, finish, buffer, row, column}.template store<0>(own);
            return;
        }
    }
    Lanes<Finish, Engine::STRIP_ROWS, STRIP> own(lane);
    Strips<Engine, Finish>{engine, finish, buffer, row, column}.template store<0>(own);
}

template <class Engine> struct Strip {
    enum { NBYTES = Engine::STRIP_ROWS * STRIP_PITCH * sizeof(typename Engine::Sum) };
};
