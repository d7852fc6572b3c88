// Tiles of an operand brought by the copy engine (TMA): a box by rows has all rows of a tile's part, a box by columns
// as many as a line of it.
#pragma once
#include "shared_tile.cuh"

// Bring COUNT rows, from `row` on, of the steps from `step` on, which lie at `tile`; to all CLUSTER blocks of a
// cluster. By rows, steps are columns of the matrix that the map is of, by columns its lines.
template <class Type, int LAYOUT, int COUNT, int CLUSTER>
DEVICE void tma_load_tile(const TensorMap *map, u32 full, u32 tile, int row, int step)
{
    enum { ROWS_FIRST = static_cast<int>(LAYOUT) == BY_ROWS };
    enum { WIDE = ROWS_FIRST ? COUNT : static_cast<int>(Width<Type>::ELEMENTS) };
    static_assert(COUNT % WIDE == 0, "whole boxes");
    UNROLL
    for (int at = 0; at < COUNT; at += WIDE) {
        const int column = ROWS_FIRST ? step : row + at, line = ROWS_FIRST ? row : step;
        if (CLUSTER > 1)
            tma_load_multicast((1 << CLUSTER) - 1, tile + at * LINE, map, full, column, line);
        else
            tma_load(tile + at * LINE, map, full, column, line);
    }
}
