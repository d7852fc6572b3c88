// Transpose of a matrix in global memory, for instructions that need K-major operands. A block transposes a square of
// 32 x 32 words, a thread words of neighbouring lines in registers.
#pragma once
#include "shared_tile.cuh"

struct Transposition {
    const void *source;
    u32 *target;         // lines are whole words
    i64 pitch;           // of the source, in elements
    i64 words;           // from line to line of the target
    int lines, columns;  // of the source
    int aligned;         // lines of the source begin at whole words
};

enum { TRANSPOSE_THREADS = 256, SIDE = LINE / 4 };  // threads; words of a line of a square

template <class Element> struct Transpose {
    enum { EACH = 4 / sizeof(Element), ELEMENTS = SIDE * EACH, BITS = 8 * sizeof(Element) };

    // Neighbours of a line in a word; 0 outside.
    DEVICE u32 word(const Transposition &p, int line, int column)
    {
        if (line >= p.lines) return 0;
        const Element *from = static_cast<const Element *>(p.source) + line * p.pitch + column;
        if (p.aligned && column + EACH <= p.columns) return *reinterpret_cast<const u32 *>(from);
        u32 found = 0;
        UNROLL
        for (int k = 0; k < EACH; ++k)
            if (column + k < p.columns) found |= bits(from[k]) << (BITS * k % 32);
        return found;
    }

    DEVICE u32 bits(Element element)
    {
        u32 found = 0;
        memcpy(&found, &element, sizeof(Element));
        return found;
    }

    // Offset of a word of a target line, swizzled so that lanes that write lines or columns hit different banks.
    DEVICE u32 place(u32 line, u32 word) { return line * LINE + ((word ^ (line / EACH % SIDE)) * 4); }

    DEVICE void load(const Transposition &p, u32 buffer, int line, int column, int across, int down)
    {
        u32 words[EACH];
        UNROLL
        for (int i = 0; i < EACH; ++i) words[i] = word(p, line + down * EACH + i, column + across * EACH);
        UNROLL
        for (int j = 0; j < EACH; ++j) {
            u32 transposed = 0;
            UNROLL
            for (int i = 0; i < EACH; ++i)
                transposed |= (words[i] >> (BITS * j % 32) & (0xffffffffu >> (32 - BITS))) << (BITS * i % 32);
            store_shared(buffer + place(across * EACH + j, down), transposed);
        }
    }

    DEVICE void square(const Transposition &p, u32 buffer)
    {
        const int across = (p.columns + ELEMENTS - 1) / ELEMENTS, thread = threadIdx.x;
        const int line = blockIdx.x / across * ELEMENTS, column = blockIdx.x % across * ELEMENTS;
        UNROLL
        for (int iteration = 0; iteration < SIDE * SIDE / TRANSPOSE_THREADS; ++iteration)
            load(p, buffer, line, column, thread % SIDE, thread / SIDE + iteration * (TRANSPOSE_THREADS / SIDE));
        sync_block();
        const int at = line / EACH + thread % SIDE, last = (p.lines + EACH - 1) / EACH;
        UNROLL
        for (int own = thread / SIDE; own < ELEMENTS; own += TRANSPOSE_THREADS / SIDE)
            if (column + own < p.columns && at < last)
                p.target[(column + own) * p.words + at] = load_shared<u32>(buffer + place(own, thread % SIDE));
    }
};
