// Epilogue: result = relu(scale[column] * factor * sum + bias[column] + added), each part optional.
#pragma once
#include "fragments.cuh"

struct Epilogue {
    void *first;
    const void *added;                // laid out as the result; or null
    const float *scale, *bias;        // one number a column; or null
    i64 pitch;                        // elements from row to row
    int rows, columns;
    float factor;
    int relu, plain, aligned;         // plain: the result is the sum; aligned: all rows begin at multiples of 16 bytes
};

// Offset of a row of the result, in elements; split-K parts follow one another.
struct RowsInOrder {
    const Epilogue &epilogue;
    const int part;
    METHOD i64 offset(int row) const { return (static_cast<i64>(part) * epilogue.rows + row) * epilogue.pitch; }
};

template <class Type, class Offsets> struct Finish {
    typedef typename Type::Sum Sum;
    typedef typename Type::Result Result;
    enum { COUNT = 16 / sizeof(Result), REAL = !SAME<Sum, int>::YES };
    typedef Vector<Result, COUNT> Results;

    const Epilogue &epilogue;
    const Offsets offsets;

    // Address of the result of a row and a column; null if the row does not exist.
    METHOD Result *place(int row, int column) const
    {
        return row < epilogue.rows ? static_cast<Result *>(epilogue.first) + offsets.offset(row) + column : nullptr;
    }

    METHOD const Result *added_to(const Result *target) const
    {
        const i64 apart = static_cast<const u8 *>(epilogue.added) - static_cast<const u8 *>(epilogue.first);
        return reinterpret_cast<const Result *>(reinterpret_cast<const u8 *>(target) + apart);
    }

    METHOD Sum finished(Sum sum, int column, const Result *target) const
    {
        if constexpr (!REAL) return sum;
        Sum value = static_cast<Sum>(epilogue.factor) * sum;
        if (epilogue.scale) value *= static_cast<Sum>(epilogue.scale[column]);
        if (epilogue.bias) value += static_cast<Sum>(epilogue.bias[column]);
        if (epilogue.added) value += Type::taken(*added_to(target));
        return epilogue.relu && value < 0 ? Sum(0) : value;
    }

    // The same for COUNT neighbours, loading four numbers of scale and bias at a time.
    METHOD void finish(Sum (&sums)[COUNT], int column, const Result *target) const
    {
        if constexpr (!REAL) return;
        Results more = {};
        if (epilogue.added) more = *reinterpret_cast<const Results *>(added_to(target));
        UNROLL
        for (int i = 0; i < COUNT; ++i) sums[i] *= static_cast<Sum>(epilogue.factor);
        const auto scale = [](Sum &sum, float by) { sum *= static_cast<Sum>(by); };
        const auto shift = [](Sum &sum, float by) { sum += static_cast<Sum>(by); };
        if (epilogue.scale) combine(sums, epilogue.scale + column, scale);
        if (epilogue.bias) combine(sums, epilogue.bias + column, shift);
        if (epilogue.added)
            UNROLL
            for (int i = 0; i < COUNT; ++i) sums[i] += Type::taken(more.values[i]);
        if (epilogue.relu)
            UNROLL
            for (int i = 0; i < COUNT; ++i) sums[i] = sums[i] < 0 ? Sum(0) : sums[i];
    }

    template <class Use> DEVICE void combine(Sum (&sums)[COUNT], const float *numbers, const Use &use)
    {
        enum { AT_ONCE = static_cast<int>(COUNT) < 4 ? static_cast<int>(COUNT) : 4 };
        typedef Vector<float, AT_ONCE> Numbers;
        UNROLL
        for (int i = 0; i < COUNT; i += AT_ONCE) {
            const Numbers by = *reinterpret_cast<const Numbers *>(numbers + i);
            UNROLL
            for (int k = 0; k < AT_ONCE; ++k) use(sums[i + k], by.values[k]);
        }
    }

    METHOD bool whole(int column) const { return epilogue.aligned && column + COUNT <= epilogue.columns; }

    // COUNT neighbours, all within the result.
    METHOD void put(Sum (&sums)[COUNT], int column, Result *target) const
    {
        if (!epilogue.plain) finish(sums, column, target);
        Results results;
        Type::store(results.values, sums);
        *reinterpret_cast<Results *>(target) = results;
    }

    METHOD void put_one(Sum sum, int column, Result *target) const
    {
        if (column < epilogue.columns) *target = Type::stored(finished(sum, column, target));
    }
};

// Targets of a lane: COUNT neighbours in some of the ROWS rows of a strip of COLUMNS columns.
template <class Finish, int ROWS, int COLUMNS> struct Lanes {
    enum { ACROSS = COLUMNS / Finish::COUNT, APART = 32 / ACROSS, ITERATIONS = ROWS / APART };
    const int row, column;
    typename Finish::Result *targets[ITERATIONS];

    METHOD Lanes(int lane) : row(lane / ACROSS), column(lane % ACROSS * Finish::COUNT) {}

    METHOD void find(const Finish &finish, int first_row, int first_column)
    {
        UNROLL
        for (int iteration = 0; iteration < ITERATIONS; ++iteration)
            targets[iteration] = finish.place(first_row + row + iteration * APART, first_column + column);
    }

    METHOD u32 staged(int iteration, int pitch) const { return (row + iteration * APART) * pitch + column; }
};

// Stores strips of the tile of a warp through its own buffer in shared memory.
template <class Engine, class Finish> struct Strips {
    typedef typename Finish::Sum Sum;
    typedef typename Finish::Result Result;
    typedef Lanes<Finish, Engine::STRIP_ROWS, STRIP> WarpLanes;

    const Engine &engine;
    const Finish &finish;
    const u32 buffer;
    const int row, column;  // of the tile

    template <int INDEX> METHOD void store(WarpLanes &lanes) const
    {
        if constexpr (INDEX < Engine::STRIPS) {
            if constexpr (INDEX % Engine::STRIPS_ACROSS == 0) lanes.find(finish, row + engine.strip_row(INDEX), column);
            sync_warp();
            engine.template stage<INDEX>(buffer);
            sync_warp();
            UNROLL
            for (int iteration = 0; iteration < WarpLanes::ITERATIONS; ++iteration) {
                const u32 from = buffer + lanes.staged(iteration, STRIP_PITCH) * static_cast<u32>(sizeof(Sum));
                const int first = engine.strip_column(INDEX);
                Result *target = lanes.targets[iteration];
                if (target) put(target + first, column + lanes.column + first, from);
            }
            store<INDEX + 1>(lanes);
        }
    }

    METHOD void put(Result *target, int column, u32 from) const
    {
        if (finish.whole(column)) {
            Sum sums[Finish::COUNT];
            load_all(sums, from);
            finish.put(sums, column, target);
        } else
            NO_UNROLL
            for (int i = 0; i < Finish::COUNT; ++i)
                finish.put_one(load_shared<Sum>(from + i * static_cast<u32>(sizeof(Sum))), column + i, target + i);
    }

    DEVICE void load_all(Sum (&sums)[Finish::COUNT], u32 from)
    {
        enum { AT_ONCE = 16 / sizeof(Sum) };
        UNROLL
        for (int i = 0; i < Finish::COUNT; i += AT_ONCE) {
            const u32 at = from + i * static_cast<u32>(sizeof(Sum));
            const Vector<Sum, AT_ONCE> part = load_shared<Vector<Sum, AT_ONCE>>(at);
            UNROLL
            for (int k = 0; k < AT_ONCE; ++k) sums[i + k] = part.values[k];
        }
    }
};

// The same for plain two-byte results whose columns all exist: they are converted before they go to shared memory,
// which halves the bytes.
template <class Engine, class Finish> struct PackedStrips {
    typedef Lanes<Finish, Engine::STRIP_ROWS, PACKED> WarpLanes;
    typedef Vector<u32, 4> Words;

    const Engine &engine;
    const Finish &finish;
    const u32 buffer;
    const int row, column;

    template <int INDEX> METHOD void store(WarpLanes &lanes) const
    {
        if constexpr (INDEX < Engine::STRIPS) {
            if constexpr (INDEX % Engine::STRIPS_ACROSS == 0) lanes.find(finish, row + engine.strip_row(INDEX), column);
            sync_warp();
            engine.template stage_packed<INDEX>(buffer);
            sync_warp();
            UNROLL
            for (int iteration = 0; iteration < WarpLanes::ITERATIONS; ++iteration) {
                const Words words = load_shared<Words>(buffer + 2 * lanes.staged(iteration, PACKED_PITCH));
                typename Finish::Result *target = lanes.targets[iteration];
                if (target) *reinterpret_cast<Words *>(target + engine.strip_column(INDEX)) = words;
            }
            store<INDEX + PACKED / STRIP>(lanes);
        }
    }
};

// Store the part of a warp of the tile that begins at (row, column).
template <class Engine, class Finish>
DEVICE void store_strips(const Engine &engine, const Finish &finish, u32 buffer, int row, int column, int lane)
{
    if constexpr (sizeof(typename Finish::Result) == 2 && Engine::STRIPS_ACROSS % 2 == 0) {
        const int last = column + engine.strip_column(Engine::STRIPS_ACROSS - 1) + STRIP;
        if (finish.epilogue.plain && finish.epilogue.aligned && last <= finish.epilogue.columns) {
            Lanes<Finish, Engine::STRIP_ROWS, PACKED> lanes(lane);
            PackedStrips<Engine, Finish>{engine, finish, buffer, row, column}.template store<0>(lanes);
            return;
        }
    }
    Lanes<Finish, Engine::STRIP_ROWS, STRIP> lanes(lane);
    Strips<Engine, Finish>{engine, finish, buffer, row, column}.template store<0>(lanes);
}

template <class Engine> struct Strip {
    enum { NBYTES = Engine::STRIP_ROWS * STRIP_PITCH * sizeof(typename Engine::Sum) };
};
