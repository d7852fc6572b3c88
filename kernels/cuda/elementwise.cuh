// Element-wise kernels on vectors in global memory: 16 bytes a thread at a time, with several loads in flight before
// the first is used.
#pragma once
#include "types.cuh"

enum { THREADS = 256 };

// to[i] = combine(from[0][i], from[1][i] ...); `combine` takes an array of numbers. All vectors start at multiples of
// 16 bytes.
template <class Element, int OPERANDS, class Combine> struct Stream {
    enum { COUNT = 16 / sizeof(Element) };
    typedef Vector<Element, COUNT> Piece;

    Element *const to;
    const Element *const (&from)[OPERANDS];
    const Combine &combine;

    // PIECES pieces from `first` on, THREADS apart.
    template <int PIECES> METHOD void move(i64 first) const
    {
        Piece given[PIECES][OPERANDS];
        UNROLL
        for (int piece = 0; piece < PIECES; ++piece)
            UNROLL
            for (int operand = 0; operand < OPERANDS; ++operand)
                given[piece][operand] =
                    load_streamed(reinterpret_cast<const Piece *>(from[operand]) + first + piece * THREADS);
        UNROLL
        for (int piece = 0; piece < PIECES; ++piece) {
            Piece made;
            UNROLL
            for (int i = 0; i < COUNT; ++i) {
                Element numbers[OPERANDS];
                UNROLL
                for (int operand = 0; operand < OPERANDS; ++operand) numbers[operand] = given[piece][operand].values[i];
                made.values[i] = combine(numbers);
            }
            store_streamed(reinterpret_cast<Piece *>(to) + first + piece * THREADS, made);
        }
    }

    // The whole vector: chunks of blocks, then single pieces, then the remainder.
    template <int PIECES> METHOD void run(i64 length) const
    {
        enum { CHUNK = THREADS * PIECES };
        const i64 pieces = length / COUNT, chunks = pieces / CHUNK, blocks = gridDim.x;
        for (i64 chunk = blockIdx.x; chunk < chunks; chunk += blocks) move<PIECES>(chunk * CHUNK + threadIdx.x);
        const i64 thread = blockIdx.x * THREADS + threadIdx.x;
        for (i64 piece = chunks * CHUNK + thread; piece < pieces; piece += blocks * THREADS) move<1>(piece);
        if (const i64 last = pieces * COUNT + thread; last < length) {
            Element numbers[OPERANDS];
            UNROLL
            for (int operand = 0; operand < OPERANDS; ++operand) numbers[operand] = from[operand][last];
            to[last] = combine(numbers);
        }
    }
};

template <int PIECES, class Element, int OPERANDS, class Combine>
DEVICE void stream(Element *to, const Element *const (&from)[OPERANDS], i64 length, const Combine &combine)
{
    Stream<Element, OPERANDS, Combine>{to, from, combine}.template run<PIECES>(length);
}
