// Tile products by tensor cores of a warp (mma.sync): bf16, fp16, tf32 and int8. Compute capability 8.0 and later.
#pragma once
#include "fragments.cuh"

template <class Type> struct Multiply;
template <> struct Multiply<Bf16> {
    DEVICE void add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_bf16(c, a, b0, b1); }
};
template <> struct Multiply<Fp16> {
    DEVICE void add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_fp16(c, a, b0, b1); }
};
template <> struct Multiply<Tf32> {
    DEVICE void add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_tf32(c, a, b0, b1); }
};
template <> struct Multiply<Int8> {
    DEVICE void add(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_int8(c, a, b0, b1); }
};

// Fragments of 16 rows of an operand and 32 bytes of steps, number `step` of four in a line. Of A, words 0 and 1 hold
// the first and second eight rows in the first half of the steps, words 2 and 3 in the second half. Of B, words 0 and 1
// hold both halves of the steps of the first eight rows, as the instruction needs them together.
enum Side { OF_A, OF_B };

template <class Type, int LAYOUT, int SIDE> struct Fragments {
    DEVICE void load(u32 (&words)[4], u32 tile, int row, int step, int lane)
    {
        const int once = lane / 8 % 2, twice = lane / 16;
        const int rows = SIDE == OF_A ? once : twice, half = SIDE == OF_A ? twice : once;
        if constexpr (LAYOUT == BY_ROWS)
            ldmatrix(words, tile + swizzled_offset(row + 8 * rows + lane % 8, 2 * step + half));
        else {
            static_assert(sizeof(typename Type::Element) == 2, "only numbers of 16 bits are turned");
            const u32 offset = swizzled_column_offset<Type>(16 * step + 8 * half + lane % 8, row / 8 + rows);
            ldmatrix_transposed(words, tile + offset);
        }
        if constexpr (SAME<Type, Tf32>::YES)
            UNROLL
            for (int word = 0; word < 4; ++word) words[word] = to_tf32(words[word]);
    }
};

// MN-major operands of 32-bit numbers, loaded one by one.
template <int SIDE> struct Fragments<Tf32, BY_COLUMNS, SIDE> {
    DEVICE void load(u32 (&words)[4], u32 tile, int row, int step, int lane)
    {
        UNROLL
        for (int word = 0; word < 4; ++word) {
            const u32 rows = SIDE == OF_A ? word % 2 : word / 2, half = SIDE == OF_A ? word / 2 : word % 2;
            const u32 from = 8 * step + 4 * half + lane % 4, at = row + 8 * rows + lane / 4;
            words[word] = to_tf32(load_shared<u32>(tile + swizzled_column_offset<Tf32>(from, at / 4) + at % 4 * 4));
        }
    }
};

template <class Type_, int ROWS, int COLUMNS, int DOWN, int ACROSS, int A_LAYOUT, int B_LAYOUT> struct Mma {
    typedef Type_ Type;
    typedef typename Type::Sum Sum;
    enum { WARPS = DOWN * ACROSS, TALL = ROWS / DOWN / 16, WIDE = COLUMNS / ACROSS / 8, STEPS = 4 };
    enum { STRIP_ROWS = 16, STRIPS_ACROSS = WIDE * 8 / STRIP, STRIPS = TALL * STRIPS_ACROSS };
    static_assert(WIDE * 8 % STRIP == 0, "a warp has whole strips");

    Sum sums[TALL][WIDE][4];
    const int row, column, lane;

    METHOD Mma(int thread)
        : row(thread / 32 / ACROSS * TALL * 16), column(thread / 32 % ACROSS * WIDE * 8), lane(thread % 32)
    {
        UNROLL
        for (int i = 0; i < TALL; ++i)
            UNROLL
            for (int j = 0; j < WIDE; ++j)
                UNROLL
                for (int part = 0; part < 4; ++part) sums[i][j][part] = 0;
    }

    METHOD void multiply(u32 a, u32 b)
    {
        UNROLL
        for (int step = 0; step < STEPS; ++step) {
            u32 left[TALL][4], right[WIDE / 2][4];
            UNROLL
            for (int i = 0; i < TALL; ++i) Fragments<Type, A_LAYOUT, OF_A>::load(left[i], a, row + 16 * i, step, lane);
            UNROLL
            for (int j = 0; j < WIDE / 2; ++j)
                Fragments<Type, B_LAYOUT, OF_B>::load(right[j], b, column + 16 * j, step, lane);
            UNROLL
            for (int i = 0; i < TALL; ++i)
                UNROLL
                for (int j = 0; j < WIDE; ++j)
                    Multiply<Type>::add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
    }

    template <int INDEX> METHOD void stage(u32 buffer) const
    {
        stage_fragments(&sums[INDEX / STRIPS_ACROSS][INDEX % STRIPS_ACROSS * (STRIP / 8)][0], buffer, lane);
    }
    template <int INDEX> METHOD void stage_packed(u32 buffer) const
    {
        const Sum *part = &sums[INDEX / STRIPS_ACROSS][INDEX % STRIPS_ACROSS * (STRIP / 8)][0];
        stage_packed_fragments<Type>(part, buffer, lane);
    }
    METHOD int strip_row(int index) const { return row + index / STRIPS_ACROSS * 16; }
    METHOD int strip_column(int index) const { return column + index % STRIPS_ACROSS * STRIP; }
};
