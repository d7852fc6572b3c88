// Split-K reduction: adds the partial sums of parts of the steps.
#pragma once
#include "epilogue.cuh"

// `left` of the neighbours exist; aligned: they are at a multiple of 16 bytes.
template <class Sum, int COUNT> DEVICE void add_part(Sum (&sums)[COUNT], const Sum *part, int left, bool aligned)
{
    enum { AT_ONCE = 16 / sizeof(Sum) };
    if (aligned && left >= COUNT) {
        UNROLL
        for (int i = 0; i < COUNT; i += AT_ONCE) {
            const Vector<Sum, AT_ONCE> more = *reinterpret_cast<const Vector<Sum, AT_ONCE> *>(part + i);
            UNROLL
            for (int k = 0; k < AT_ONCE; ++k) sums[i + k] += more.values[k];
        }
    } else
        UNROLL
        for (int k = 0; k < COUNT; ++k)
            if (k < left) sums[k] += part[k];
}

// Add all parts, each a contiguous matrix, in order, and apply the epilogue; a thread has neighbours of a row.
template <class Type, class Offsets>
DEVICE void reduce_parts(const void *parts, int count, const Epilogue &epilogue, const Offsets &offsets)
{
    typedef typename Type::Sum Sum;
    typedef Finish<Type, Offsets> Finish;
    const Finish finish = {epilogue, offsets};
    const bool aligned = epilogue.columns % (16 / static_cast<int>(sizeof(Sum))) == 0;
    // Fewer than 2^31 vectors of 16 bytes: 32-bit indices, whose division needs no call.
    const u32 vectors = (epilogue.columns + Finish::COUNT - 1) / Finish::COUNT, total = epilogue.rows * vectors;
    const i64 apart = static_cast<i64>(epilogue.rows) * epilogue.columns;
    for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < total; index += gridDim.x * blockDim.x) {
        const int row = static_cast<int>(index / vectors), column = static_cast<int>(index % vectors) * Finish::COUNT;
        Sum sums[Finish::COUNT] = {};
        const Sum *part = static_cast<const Sum *>(parts) + static_cast<i64>(row) * epilogue.columns + column;
        for (int i = 0; i < count; ++i, part += apart) add_part(sums, part, epilogue.columns - column, aligned);
        typename Finish::Result *target = finish.place(row, column);
        if (finish.whole(column))
            finish.put(sums, column, target);
        else
            UNROLL
            for (int i = 0; i < Finish::COUNT; ++i) finish.put_one(sums[i], column + i, target + i);
    }
}
