// Tile products by tensor cores of a warpgroup, from shared memory (wgmma): sm_90a.
#pragma once
#include "fragments.cuh"

template <class Type> struct MultiplyByWarpgroup;
template <> struct MultiplyByWarpgroup<Bf16> {
    template <bool A, bool B, class Sums> DEVICE void add(Sums &d, u64 a, u64 b) { wgmma_bf16<A, B>(d, a, b, 1); }
};
template <> struct MultiplyByWarpgroup<Fp16> {
    template <bool A, bool B, class Sums> DEVICE void add(Sums &d, u64 a, u64 b) { wgmma_fp16<A, B>(d, a, b, 1); }
};
template <> struct MultiplyByWarpgroup<Tf32> {
    template <bool A, bool B, class Sums> DEVICE void add(Sums &d, u64 a, u64 b) { wgmma_tf32<A, B>(d, a, b, 1); }
};
template <> struct MultiplyByWarpgroup<Int8> {
    template <bool A, bool B, class Sums> DEVICE void add(Sums &d, u64 a, u64 b) { wgmma_int8<A, B>(d, a, b, 1); }
};

// Matrix descriptor of wgmma. PTX ISA, "Matrix Descriptor", in units of 16 bytes: bits 0-13 the address, 16-29 the
// distance of groups of an MN-major tile, 32-45 the distance of eight lines from the next eight, 62-63 the swizzle.
template <class Type, int LAYOUT> struct Descriptor {
    enum { EIGHT_LINES = 8 * LINE, GROUP = Width<Type>::ELEMENTS * LINE };

    DEVICE u64 of(u32 address)
    {
        const u64 apart = LAYOUT == BY_ROWS ? u64(VECTOR) : u64(GROUP), swizzled = 1;
        const u32 in_block = address & 0x3ffff;  // higher bits select the block of the cluster
        return in_block / VECTOR | apart / VECTOR << 16 | static_cast<u64>(EIGHT_LINES / VECTOR) << 32 | swizzled << 62;
    }

    // Offset of row `row`, a multiple of 64, and of the step-th of four blocks of 32 bytes of steps.
    DEVICE u32 offset(int row, int step)
    {
        if (LAYOUT == BY_ROWS) return row * LINE + step * (LINE / 4);
        return row / Width<Type>::ELEMENTS * GROUP + step * (Width<Type>::ELEMENTS / 4) * LINE;
    }
};

// The part of a tile of one warpgroup: ROWS x COLUMNS sums, from row `first` of the tile on.
template <class Type_, int ROWS, int COLUMNS, int A_LAYOUT, int B_LAYOUT> struct Wgmma {
    typedef Type_ Type;
    typedef typename Type::Sum Sum;
    enum { TALL = ROWS / 64, COUNT = COLUMNS / 2, STEPS = 4 };  // sums of a thread
    enum { STRIP_ROWS = 16, STRIPS_ACROSS = COLUMNS / STRIP, STRIPS = TALL * STRIPS_ACROSS };
    static_assert((A_LAYOUT == BY_ROWS && B_LAYOUT == BY_ROWS) || sizeof(typename Type::Element) == 2,
                  "only numbers of 16 bits are turned");

    Sum sums[TALL][COUNT];
    const int first, thread;

    METHOD Wgmma(int first, int thread) : first(first), thread(thread) {}

    METHOD void clear()
    {
        UNROLL
        for (int i = 0; i < TALL; ++i)
            UNROLL
            for (int j = 0; j < COUNT; ++j) sums[i][j] = 0;
    }

    METHOD void pin()
    {
        UNROLL
        for (int i = 0; i < TALL; ++i)
            UNROLL
            for (int j = 0; j < COUNT; ++j) pin_register(sums[i][j]);
    }

    // Issue the products of a line of steps; they are done after `wgmma_wait`.
    METHOD void multiply(u32 a, u32 b)
    {
        typedef Descriptor<Type, A_LAYOUT> Left;
        typedef Descriptor<Type, B_LAYOUT> Right;
        const u64 left = Left::of(a + Left::offset(first, 0)), right = Right::of(b);
        wgmma_fence();
        UNROLL
        for (int step = 0; step < STEPS; ++step)
            UNROLL
            for (int i = 0; i < TALL; ++i)
                MultiplyByWarpgroup<Type>::template add<A_LAYOUT == BY_COLUMNS, B_LAYOUT == BY_COLUMNS>(
                    sums[i], left + Left::offset(64 * i, step) / VECTOR, right + Right::offset(0, step) / VECTOR);
        wgmma_commit();
    }

    template <int INDEX> METHOD void stage(u32 buffer) const
    {
        stage_fragments(&sums[INDEX / STRIPS_ACROSS][INDEX % STRIPS_ACROSS * (STRIP / 2)], buffer, thread % 32);
    }
    template <int INDEX> METHOD void stage_packed(u32 buffer) const
    {
        const Sum *part = &sums[INDEX / STRIPS_ACROSS][INDEX % STRIPS_ACROSS * (STRIP / 2)];
        stage_packed_fragments<Type>(part, buffer, thread % 32);
    }
    METHOD int strip_row(int index) const { return first + index / STRIPS_ACROSS * 64 + thread / 32 * 16; }
    METHOD int strip_column(int index) const { return index % STRIPS_ACROSS * STRIP; }
};
