// What a warp computes of a product of tiles, SIDE x SIDE numbers each: by ordinary multiply-adds one of four squares,
// by tensor cores 16 rows. A lane has ROWS x COLUMNS of the numbers; lanes that are NEXT and 2 NEXT apart have the
// others of its rows in this warp, and ACROSS warps share a row.
#pragma once
#include "mma.cuh"
#include "simt.cuh"

enum { SIDE = 64, THREADS = 128 };

// Squares of a tile: as many lines as a line has numbers, so that each is an operand by rows and by columns.
template <class Type> struct Squares {
    enum { LINES = Width<Type>::ELEMENTS, COUNT = SIDE / LINES, SQUARE = LINES * LINE, TILE = COUNT * COUNT * SQUARE };

    DEVICE u32 at(u32 tile, int down, int across) { return tile + (COUNT * down + across) * SQUARE; }
    DEVICE u32 vector_at(u32 tile, int row, int vector)
    {
        return at(tile, row / LINES, vector / VECTORS) + swizzled_offset(row % LINES, vector % VECTORS);
    }
};

// By tensor cores, numbers of 16 bits. A tile is one square.
template <class Type> struct Warp {
    enum { ROWS = 2, COLUMNS = 16, ACROSS = 1, NEXT = 1 };
    enum { PIECE = 2, RESULT_PIECE = 2 };  // neighbouring columns of products, and of sums
    typedef Mma<Type, SIDE, SIDE, 4, 1, BY_ROWS, BY_ROWS> Products;
    typedef Mma<Type, SIDE, SIDE, 4, 1, BY_ROWS, BY_COLUMNS> Sums;

    const int across, warp, lane;

    METHOD Warp() : across(0), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}
    METHOD bool first_of_row() const { return lane % 4 == 0; }
    METHOD int row(int index) const { return warp * 16 + lane / 4 + 8 * index; }
    METHOD int column(int index) const { return index / 2 * 8 + lane % 4 * 2 + index % 2; }
    METHOD int feature(int index) const { return column(index); }
    template <class Engine> DEVICE float &number(Engine &engine, int row, int column)
    {
        return engine.sums[0][column / 2][2 * row + column % 2];
    }

    METHOD Products products() const { return Products(threadIdx.x); }
    METHOD Sums sums() const { return Sums(threadIdx.x); }
    METHOD void multiply_rows(Products &products, u32 tile, u32 other) const { products.multiply(tile, other); }
    METHOD void add_weighted(Sums &sums, u32 weights, u32 tile) const { sums.multiply(weights, tile); }
};

// By ordinary multiply-adds.
template <> struct Warp<Fp32> {
    enum { ROWS = 4, COLUMNS = 8, ACROSS = 2, NEXT = 8 };
    enum { PIECE = 1, RESULT_PIECE = 4 };
    typedef Squares<Fp32> Tile;
    enum { HALF = Tile::LINES };
    typedef Simt<Fp32, HALF, HALF, 1, 1, BY_ROWS, BY_ROWS> Products;
    typedef Simt<Fp32, HALF, HALF, 1, 1, BY_ROWS, BY_COLUMNS> Sums;

    const int down, across, lane;

    METHOD Warp() : down(threadIdx.x / 64), across(threadIdx.x / 32 % 2), lane(threadIdx.x % 32) {}
    METHOD bool first_of_row() const { return lane < 8; }
    METHOD int row(int index) const { return down * HALF + Products::part<BY_ROWS>(index, lane % 8, 8); }
    METHOD int column(int index) const { return across * HALF + Products::part<BY_ROWS>(index, lane / 8, 4); }
    METHOD int feature(int index) const { return across * HALF + Sums::part<BY_COLUMNS>(index, lane / 8, 4); }
    template <class Engine> DEVICE float &number(Engine &engine, int row, int column)
    {
        return engine.sums[row][column];
    }

    METHOD Products products() const { return Products(lane); }
    METHOD Sums sums() const { return Sums(lane); }
    METHOD void multiply_rows(Products &products, u32 tile, u32 other) const
    {
        UNROLL
        for (int half = 0; half < 2; ++half)
            products.multiply(Tile::at(tile, down, half), Tile::at(other, across, half));
    }
    METHOD void add_weighted(Sums &sums, u32 weights, u32 tile) const
    {
        UNROLL
        for (int half = 0; half < 2; ++half)
            sums.multiply(Tile::at(weights, down, half), Tile::at(tile, half, across));
    }
};
