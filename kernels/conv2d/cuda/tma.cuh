// TMA loads of operand tiles: a K-major box has all rows of a part of the tile, an MN-major box as many rows as fit
// into a line.
#pragma once
#include "shared_tile.cuh"

// Load COUNT rows from `row` on, steps from `step` on, to `tile` of all CLUSTER blocks. K-major: steps are columns of
// the mapped matrix; MN-major: steps are its lines.
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
