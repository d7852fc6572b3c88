// Tiles of attention: SIDE places of SIDE features or keys, four squares of 32 x 32 numbers one after the other. A
// square is 32 lines as shared_tile.cuh arranges them, so that it is an operand by rows and by columns. Each of the
// four warps of a block computes one square of a result.
#pragma once
#include "simt.cuh"

enum { HALF = Width<Fp32>::ELEMENTS, SIDE = 2 * HALF, SQUARE = HALF * LINE, TILE = 4 * SQUARE, THREADS = 128 };
enum { QUARTERS = 4, OF_LANE = 8 };  // rows, and columns, of a square that a lane has

typedef Simt<Fp32, HALF, HALF, 1, 1, BY_ROWS, BY_ROWS> Products;   // of rows with rows
typedef Simt<Fp32, HALF, HALF, 1, 1, BY_ROWS, BY_COLUMNS> Sums;    // of rows, weighted
typedef Vector<float, 4> Four;

// Rows of an array [batch][heads][places][features]; strides in numbers.
struct Heads {
    float *first;
    i64 sample, head, place;
};

struct Parameters {
    Heads queries, keys, values, out, gradient;  // `gradient` is that of `out`
    Heads of_queries, of_keys, of_values;        // their gradients
    float *log_sums, *means;                     // [batch][heads][places]
    int heads, places, chunks;                   // chunks of SIDE features
    float scale, scale_of_2;                     // of the scores, and the same for base 2
};

// The rows of a head.
struct Rows {
    float *first;
    i64 pitch;
    int places;

    METHOD Rows(const Heads &array, const Parameters &p)
        : first(array.first + blockIdx.x / p.heads * array.sample + blockIdx.x % p.heads * array.head),
          pitch(array.place), places(p.places)
    {
    }
};

// The square of a tile that a warp computes, and the rows and columns of it that a lane has.
struct Place {
    const int down, across, lane;

    METHOD Place() : down(threadIdx.x / 64), across(threadIdx.x / 32 % 2), lane(threadIdx.x % 32) {}
    METHOD int row(int index) const { return down * HALF + Products::part<BY_ROWS>(index, lane % 8, 8); }
    METHOD int column(int index) const { return across * HALF + Products::part<BY_ROWS>(index, lane / 8, 4); }
    METHOD int feature(int index) const { return across * HALF + Sums::part<BY_COLUMNS>(index, lane / 8, 4); }
};

DEVICE u32 square(u32 tile, int down, int across) { return tile + (2 * down + across) * SQUARE; }

DEVICE u32 vector_at(u32 tile, int row, int vector)
{
    return square(tile, row / HALF, vector / VECTORS) + swizzled_offset(row % HALF, vector % VECTORS);
}

// Begin to copy a tile of rows from `first` on, features from `feature` on; rows that do not exist become 0.
DEVICE void load_tile(u32 tile, const Rows &rows, int first, int feature)
{
    enum { ACROSS = 2 * VECTORS, APART = THREADS / ACROSS };
    const int vector = threadIdx.x % ACROSS;
    UNROLL
    for (int k = 0; k < SIDE / APART; ++k) {
        const int row = threadIdx.x / ACROSS + k * APART;
        const bool there = first + row < rows.places;
        const float *from = rows.first + (there ? first + row : 0) * rows.pitch + feature + 4 * vector;
        copy_async<VECTOR>(vector_at(tile, row, vector), from, there);
    }
}

// Store numbers of the square of a warp, rows and columns as of `Products`.
DEVICE void store_square(u32 tile, const Place &at, const float (&numbers)[QUARTERS][OF_LANE])
{
    UNROLL
    for (int i = 0; i < QUARTERS; ++i)
        UNROLL
        for (int j = 0; j < OF_LANE; ++j) {
            const int column = at.column(j);
            store_shared(vector_at(tile, at.row(i), column / 4) + column % 4 * sizeof(float), numbers[i][j]);
        }
}

// products += the rows of one tile times those of another.
DEVICE void multiply_rows(Products &products, const Place &at, u32 tile, u32 other)
{
    UNROLL
    for (int half = 0; half < 2; ++half)
        products.multiply(square(tile, at.down, half), square(other, at.across, half));
}

// sums += weights times the rows of a tile.
DEVICE void add_weighted(Sums &sums, const Place &at, u32 weights, u32 tile)
{
    UNROLL
    for (int half = 0; half < 2; ++half)
        sums.multiply(square(weights, at.down, half), square(tile, half, at.across));
}

// Store the sums, each row times a factor, as rows from `first` on, features from `feature` on.
DEVICE void store_rows(const Rows &rows, const Place &at, int first, int feature, const Sums &sums,
                       const float (&factors)[QUARTERS])
{
    UNROLL
    for (int i = 0; i < QUARTERS; ++i) {
        if (first + at.row(i) >= rows.places) continue;
        float *target = rows.first + (first + at.row(i)) * rows.pitch + feature;
        UNROLL
        for (int j = 0; j < OF_LANE; j += 4) {
            Four four;
            UNROLL
            for (int k = 0; k < 4; ++k) four.values[k] = sums.sums[i][j + k] * factors[i];
            *reinterpret_cast<Four *>(target + at.feature(j)) = four;
        }
    }
}
