// Tile products by ordinary multiply-adds: fp32 and fp64. Lanes of a warp form a grid of 8 x 4; each computes TALL x
// WIDE sums. It loads four neighbouring steps of a row, or four neighbouring rows of a step, as the operand lies.
#pragma once
#include "fragments.cuh"

template <class Type_, int ROWS, int COLUMNS, int DOWN, int ACROSS, int A_LAYOUT, int B_LAYOUT> struct Simt {
    typedef Type_ Type;
    typedef typename Type::Sum Sum;
    enum { WARPS = DOWN * ACROSS, TALL = ROWS / DOWN / 8, WIDE = COLUMNS / ACROSS / 4 };
    enum { TAKEN = Width<Type>::VECTOR_ELEMENTS };  // steps, or rows, of a vector
    enum { STRIP_ROWS = 8 * TAKEN, STRIPS_ACROSS = WIDE / 8, STRIPS = TALL / TAKEN * STRIPS_ACROSS };
    typedef Vector<Sum, TAKEN> Taken;
    static_assert(TALL % TAKEN == 0 && WIDE % 8 == 0, "tiles of whole vectors and strips");

    Sum sums[TALL][WIDE];
    const int down, across, lane;

    METHOD Simt(int thread) : down(thread / 32 / ACROSS), across(thread / 32 % ACROSS), lane(thread % 32)
    {
        UNROLL
        for (int i = 0; i < TALL; ++i)
            UNROLL
            for (int j = 0; j < WIDE; ++j) sums[i][j] = 0;
    }

    // Row in the part of the warp of the index-th row of a lane, which is number `place` of `lanes`.
    template <int LAYOUT> DEVICE int part(int index, int place, int lanes)
    {
        return LAYOUT == BY_ROWS ? place + lanes * index : (index / TAKEN * lanes + place) * TAKEN + index % TAKEN;
    }

    // Values of the rows `first + part(i)` in the steps of a vector: a vector of steps for each row, or the reverse.
    // `first` is a multiple of eight, so that the swizzle depends only on the lane and on compile-time constants.
    template <int LAYOUT, int COUNT>
    METHOD void load(Sum (&values)[COUNT][TAKEN], u32 tile, int first, int place, int lanes, int vector) const
    {
        if constexpr (LAYOUT == BY_ROWS) {
            const u32 lines = tile + (first + place) * LINE, swapped = (vector ^ place) * VECTOR;
            UNROLL
            for (int i = 0; i < COUNT; ++i) {
                const u32 line = lanes * i, at = lines + line * LINE + (swapped ^ (line % VECTORS * VECTOR));
                const Taken taken = load_shared<Taken>(at);
                UNROLL
                for (int k = 0; k < TAKEN; ++k) values[i][k] = taken.values[k];
            }
        } else {
            enum { GROUP = Width<Type>::ELEMENTS * LINE };
            const u32 lines = tile + first / (TAKEN * VECTORS) * GROUP + vector * TAKEN * LINE;
            const u32 swapped = (place ^ vector * TAKEN % VECTORS) * VECTOR;
            UNROLL
            for (int k = 0; k < TAKEN; ++k)
                UNROLL
                for (int i = 0; i < COUNT; i += TAKEN) {
                    const u32 rows = i / TAKEN * lanes, at = lines + rows / VECTORS * GROUP + k * LINE;
                    const Taken taken = load_shared<Taken>(at + (swapped ^ (rows % VECTORS ^ k) * VECTOR));
                    UNROLL
                    for (int next = 0; next < TAKEN; ++next) values[i + next][k] = taken.values[next];
                }
        }
    }

    METHOD void multiply(u32 a, u32 b)
    {
        for (int vector = 0; vector < VECTORS; ++vector) {
            Sum left[TALL][TAKEN], right[WIDE][TAKEN];
            load<A_LAYOUT>(left, a, down * TALL * 8, lane % 8, 8, vector);
            load<B_LAYOUT>(right, b, across * WIDE * 4, lane / 8, 4, vector);
            UNROLL
            for (int k = 0; k < TAKEN; ++k)
                UNROLL
                for (int i = 0; i < TALL; ++i)
                    UNROLL
                    for (int j = 0; j < WIDE; ++j) sums[i][j] += left[i][k] * right[j][k];
        }
    }

    // A strip has TAKEN rows and eight columns of each lane, which are neighbours over all lanes.
    template <int INDEX> METHOD void stage(u32 buffer) const
    {
        enum { FIRST_ROW = INDEX / (WIDE / 8) * TAKEN, FIRST_COLUMN = INDEX % (WIDE / 8) * 8 };
        UNROLL
        for (int i = 0; i < TAKEN; ++i)
            UNROLL
            for (int j = 0; j < 8; ++j) {
                const int at = part<A_LAYOUT>(i, lane % 8, 8) * STRIP_PITCH + part<B_LAYOUT>(j, lane / 8, 4);
                store_shared(buffer + at * sizeof(Sum), sums[FIRST_ROW + i][FIRST_COLUMN + j]);
            }
    }
    METHOD int strip_row(int index) const { return down * TALL * 8 + index / (WIDE / 8) * STRIP_ROWS; }
    METHOD int strip_column(int index) const { return across * WIDE * 4 + index % (WIDE / 8) * STRIP; }
};
