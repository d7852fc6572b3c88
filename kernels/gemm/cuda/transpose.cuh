// A matrix transposed, so that what were its columns lie as lines: for products whose instructions read steps as neighbours
// only. A block transposes a square of 32 words by 32, a thread words of neighbouring lines, in registers.
#pragma once
#include "shared_tile.cuh"

struct Transposition {
    const void *source;
    u32 *target;         // its lines are whole words
    i64 pitch;           // of the source, in elements
    i64 words;           // from a line of the target to the next
    int lines, columns;  // of the source
    int aligned;         // lines of the source begin at whole words
};

enum { TRANSPOSE_THREADS = 256, SIDE = LINE / 4 };  // threads; words of a line of a square

template <class Element> struct Transpose {
    enum { EACH = 4 / sizeof(Element), ELEMENTS = SIDE * EACH, BITS = 8 * sizeof(Element) };

    // Neighbours of a line, 0 where there are none.
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

    // Where a word of a line of the target is: lanes write words of lines, or of columns, to different banks.
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
