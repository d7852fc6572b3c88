// Layout of tensor-core accumulators in the registers of a warp: in a tile of 16 x 8, a lane holds two neighbours of
// row lane / 4 and two of row lane / 4 + 8, columns 2 (lane % 4) and the next. PTX ISA, "Matrix Fragments for
// mma.m16n8k16" and "Register Fragments for wgmma".
#pragma once
#include "shared_tile.cuh"

// Columns that are staged in shared memory at a time; elements from row to row.
enum { STRIP = 32, STRIP_PITCH = STRIP + 8 };

// Stage 16 rows of STRIP columns in shared memory.
template <class Sum> DEVICE void stage_fragments(const Sum *sums, u32 buffer, int lane)
{
    UNROLL
    for (int eight = 0; eight < STRIP / 8; ++eight)
        UNROLL
        for (int half = 0; half < 2; ++half) {
            const int row = lane / 4 + 8 * half, column = 8 * eight + lane % 4 * 2;
            const Vector<Sum, 2> pair = {{sums[4 * eight + 2 * half], sums[4 * eight + 2 * half + 1]}};
            store_shared(buffer + (row * STRIP_PITCH + column) * sizeof(Sum), pair);
        }
}

// The same for twice as many columns of two-byte results.
enum { PACKED = 2 * STRIP, PACKED_PITCH = PACKED + 8 };

template <class Type> DEVICE void stage_packed_fragments(const float *sums, u32 buffer, int lane)
{
    UNROLL
    for (int eight = 0; eight < PACKED / 8; ++eight)
        UNROLL
        for (int half = 0; half < 2; ++half) {
            const int row = lane / 4 + 8 * half, column = 8 * eight + lane % 4 * 2;
            const u32 pair = Type::pair(sums[4 * eight + 2 * half], sums[4 * eight + 2 * half + 1]);
            store_shared(buffer + (row * PACKED_PITCH + column) * 2, pair);
        }
}
