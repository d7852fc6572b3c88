// Tiles of operands in shared memory: lines of 128 bytes, each of eight vectors of 16. A tile lies either by rows, a
// line is then a row of the tile and holds neighbouring steps of the sum; or by columns, a line is then a step and
// holds neighbouring rows, and groups of so many rows follow one another. In line l vector v is at place v ^ (l % 8),
// so that whatever eight lanes read, lines or vectors, lies in different banks; the copy engine and wgmma call it the
// swizzle of 128 bytes, and want tiles to begin at multiples of 1024.
#pragma once
#include "types.cuh"

enum { LINE = 128, VECTOR = 16, VECTORS = LINE / VECTOR };
enum Layout { BY_ROWS, BY_COLUMNS };

template <class Type> struct Width {
    enum { NBYTES = sizeof(typename Type::Element), VECTOR_ELEMENTS = VECTOR / NBYTES, ELEMENTS = LINE / NBYTES };
};

DEVICE u32 swizzled_offset(u32 line, u32 vector) { return line * LINE + ((vector ^ (line & (VECTORS - 1))) * VECTOR); }

// Of a tile by columns: where the vector of rows is, counted over all groups, in the line of a step.
template <class Type> DEVICE u32 swizzled_column_offset(u32 step, u32 vector)
{
    return vector / VECTORS * (Width<Type>::ELEMENTS * LINE) + swizzled_offset(step, vector % VECTORS);
}

// Bring a vector of 16 bytes in pieces of PIECE bytes, or of an element if no whole word is certain to lie at a
// multiple of its size; of its elements the first `left` exist, if any, the others are 0 and nothing is read of them.
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
