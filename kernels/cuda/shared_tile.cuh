// Operand tiles in shared memory: lines of 128 bytes, each of eight vectors of 16. K-major (by rows): a line is a row
// of the tile and holds neighbouring steps. MN-major (by columns): a line is a step and holds neighbouring rows; groups
// of that many rows follow one another. Vector v of line l is stored at v ^ (l % 8), the 128-byte swizzle of TMA and
// wgmma, so that eight lanes that read neighbouring lines or vectors hit different banks. Tiles begin at multiples of
// 1024.
#pragma once
#include "types.cuh"

enum { LINE = 128, VECTOR = 16, VECTORS = LINE / VECTOR };
enum Layout { BY_ROWS, BY_COLUMNS };

template <class Type> struct Width {
    enum { NBYTES = sizeof(typename Type::Element), VECTOR_ELEMENTS = VECTOR / NBYTES, ELEMENTS = LINE / NBYTES };
};

DEVICE u32 swizzled_offset(u32 line, u32 vector) { return line * LINE + ((vector ^ (line & (VECTORS - 1))) * VECTOR); }

// MN-major tile: offset of a vector of rows, counted over all groups, in the line of a step.
template <class Type> DEVICE u32 swizzled_column_offset(u32 step, u32 vector)
{
    return vector / VECTORS * (Width<Type>::ELEMENTS * LINE) + swizzled_offset(step, vector % VECTORS);
}

// Copy a vector of 16 bytes in pieces of PIECE bytes, or by element where less than a word is aligned. The first `left`
// elements exist; the others become 0 and are not read.
template <class Element, int PIECE> DEVICE void copy_vector(u32 target, const Element *source, int left)
{
    enum { ELEMENTS = PIECE < 4 ? 1 : PIECE / sizeof(Element), NBYTES = ELEMENTS * sizeof(Element) };
    UNROLL
    for (int piece = 0; piece < VECTOR / NBYTES; ++piece) {
        const bool there = piece * ELEMENTS < left;
        const Element *from = source + piece * ELEMENTS;
        if constexpr (PIECE >= 4)
            copy_async<PIECE>(target + piece * PIECE, from, there);
        else
            store_shared(target + piece * NBYTES, there ? *from : Element(0));
    }
}
