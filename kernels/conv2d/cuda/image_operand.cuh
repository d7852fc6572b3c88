// Operands of convolutions: rows or columns of a matrix that is nowhere, for its elements are those of pictures, with
// the channels last, that the taps of a window see. Nothing is copied but to shared memory (implicit GEMM; Chetlur and
// others, cuDNN, arXiv:1410.0759, section 3). Channels of a group are a multiple of a vector.
#pragma once
#include "geometry.cuh"

WORD void round_vector(u32 place)
{
    Vector<u32, 4> words = load_shared<Vector<u32, 4>>(place);
    UNROLLED
    for (int i = 0; i < 4; ++i) words.values[i] = to_tf32(words.values[i]);
    store_shared(place, words);
}

// Operands as in matrix_operand.cuh. `settle` is for what has landed, by the threads that copied it.

// A line is a pixel, its columns are taps and channels.
template <class Type, int ROWS, int THREADS> struct PixelsByRows {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_ROWS, NBYTES = ROWS * LINE, APART = THREADS / VECTORS, MINE = ROWS / APART };
    static_assert(ROWS % APART == 0 && APART % VECTORS == 0, "threads share the rows out evenly");

    const Picture &picture;
    const Walk &walk;
    const u64 whole;  // address
    const int thread;
    const u32 last;
    u64 first[MINE];
    u32 places[MINE];
    Tap tap;

    METHOD PixelsByRows(const Picture &picture, const Walk &walk, i64 group, int thread)
        : picture(picture), walk(walk), whole(address_of(static_cast<const Element *>(picture.first) + group)),
          thread(thread), last(last_of(picture))
    {
    }

    METHOD void begin(int row)
    {
        Window windows[MINE];
        find_lines(windows, thread, APART, [&](int line) { return window_at<Element>(walk, picture, row + line); });
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            places[mine] = windows[mine].place;
            first[mine] = whole + windows[mine].nbytes();
        }
    }

    METHOD void aim(int step)
    {
        tap = tap_at<Element>(walk, picture, step + thread % VECTORS * Width<Type>::VECTOR_ELEMENTS);
    }

    METHOD void bring(u32 target, int) const
    {
        const u32 own = target + vector_place(thread / VECTORS, thread % VECTORS);
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine)
            copy_async<VECTOR>(own + mine * (APART * LINE), at_address(first[mine] + tap.nbytes),
                               inside(last, places[mine] + tap.place));
    }

    // wgmma would cut off what tf32 does not have.
    METHOD void settle(u32 target) const
    {
        if constexpr (SAME<Type, Tf32>::YES)
            UNROLLED
            for (int mine = 0; mine < MINE; ++mine)
                round_vector(target + vector_place(thread / VECTORS, thread % VECTORS) + mine * (APART * LINE));
    }
};

// A line is a pixel, which is a step of the sum; its columns are taps and channels.
template <class Type, int COLUMNS, int THREADS> struct PixelsByColumns {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_COLUMNS, NBYTES = COLUMNS * LINE, STEPS = Width<Type>::ELEMENTS, GROUPS = COLUMNS / STEPS };
    enum { APART = THREADS / VECTORS, MINE = STEPS / APART, COUNT = Width<Type>::VECTOR_ELEMENTS };
    static_assert(STEPS % APART == 0 && COLUMNS % STEPS == 0, "threads share the lines out evenly");

    const Picture &picture;
    const Walk &walk;
    const u64 whole;  // address
    const int thread;
    const u32 last;
    Tap taps[GROUPS];
    Window windows[MINE];

    METHOD PixelsByColumns(const Picture &picture, const Walk &walk, i64 group, int thread)
        : picture(picture), walk(walk), whole(address_of(static_cast<const Element *>(picture.first) + group)),
          thread(thread), last(last_of(picture))
    {
    }

    METHOD void begin(int column)
    {
        UNROLLED
        for (int group = 0; group < GROUPS; ++group)
            taps[group] = tap_at<Element>(walk, picture, column + group * STEPS + thread % VECTORS * COUNT);
    }

    METHOD void aim(int step)
    {
        find_lines(windows, thread, APART, [&](int line) { return window_at<Element>(walk, picture, step + line); });
    }

    METHOD void bring(u32 target, int) const
    {
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            const u32 own = target + vector_place(thread / VECTORS + mine * APART, thread % VECTORS);
            const u64 first = whole + windows[mine].nbytes();
            UNROLLED
            for (int group = 0; group < GROUPS; ++group)
                copy_async<VECTOR>(own + group * (STEPS * LINE), at_address(first + taps[group].nbytes),
                                   inside(last, windows[mine].place + taps[group].place));
        }
    }

    METHOD void settle(u32) const {}
};
