// Gathered operand of an implicit GEMM: rows or columns of the im2col matrix, which is never stored; elements are
// copied from the images directly to shared memory (Chetlur et al., cuDNN, arXiv:1410.0759, section 3). The channels of
// a group must be a multiple of a vector.
#pragma once
#include "geometry.cuh"

DEVICE void round_vector(u32 place)
{
    Vector<u32, 4> words = load_shared<Vector<u32, 4>>(place);
    UNROLL
    for (int i = 0; i < 4; ++i) words.values[i] = to_tf32(words.values[i]);
    store_shared(place, words);
}

// Interface as in matrix_operand.cuh. `finish_load` processes copies that have landed, by the threads that issued them.

// K-major: a line is a pixel, its columns are taps and channels.
template <class Type, int ROWS, int THREADS> struct PixelsByRows {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_ROWS, NBYTES = ROWS * LINE, APART = THREADS / VECTORS, PER_THREAD = ROWS / APART };
    static_assert(ROWS % APART == 0 && APART % VECTORS == 0, "threads share the rows out evenly");

    const Image &image;
    const Geometry &geometry;
    const u64 whole;  // address
    const int thread;
    const u32 last;
    u64 first[PER_THREAD];
    u32 places[PER_THREAD];
    Tap tap;

    METHOD PixelsByRows(const Image &image, const Geometry &geometry, i64 group, int thread)
        : image(image), geometry(geometry), whole(address_of(static_cast<const Element *>(image.first) + group)),
          thread(thread), last(last_of(image))
    {
    }

    METHOD void begin(int row)
    {
        Window windows[PER_THREAD];
        lookup_lines(windows, thread, APART, [&](int line) { return window_at<Element>(geometry, image, row + line); });
        UNROLL
        for (int item = 0; item < PER_THREAD; ++item) {
            places[item] = windows[item].place;
            first[item] = whole + windows[item].nbytes();
        }
    }

    METHOD void prepare(int step)
    {
        tap = tap_at<Element>(geometry, image, step + thread % VECTORS * Width<Type>::VECTOR_ELEMENTS);
    }

    METHOD void load(u32 target, int) const
    {
        const u32 own = target + swizzled_offset(thread / VECTORS, thread % VECTORS);
        UNROLL
        for (int item = 0; item < PER_THREAD; ++item)
            copy_async<VECTOR>(own + item * (APART * LINE), at_address(first[item] + tap.nbytes),
                               inside(last, places[item] + tap.place));
    }

    // Round to tf32; wgmma would truncate.
    METHOD void finish_load(u32 target) const
    {
        if constexpr (SAME<Type, Tf32>::YES)
            UNROLL
            for (int item = 0; item < PER_THREAD; ++item)
                round_vector(target + swizzled_offset(thread / VECTORS, thread % VECTORS) + item * (APART * LINE));
    }
};

// MN-major: a line is a pixel, which is a step of the sum; its columns are taps and channels.
template <class Type, int COLUMNS, int THREADS> struct PixelsByColumns {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_COLUMNS, NBYTES = COLUMNS * LINE, STEPS = Width<Type>::ELEMENTS, GROUPS = COLUMNS / STEPS };
    enum { APART = THREADS / VECTORS, PER_THREAD = STEPS / APART, COUNT = Width<Type>::VECTOR_ELEMENTS };
    static_assert(STEPS % APART == 0 && COLUMNS % STEPS == 0, "threads share the lines out evenly");

    const Image &image;
    const Geometry &geometry;
    const u64 whole;  // address
    const int thread;
    const u32 last;
    Tap taps[GROUPS];
    Window windows[PER_THREAD];

    METHOD PixelsByColumns(const Image &image, const Geometry &geometry, i64 group, int thread)
        : image(image), geometry(geometry), whole(address_of(static_cast<const Element *>(image.first) + group)),
          thread(thread), last(last_of(image))
    {
    }

    METHOD void begin(int column)
    {
        UNROLL
        for (int group = 0; group < GROUPS; ++group)
            taps[group] = tap_at<Element>(geometry, image, column + group * STEPS + thread % VECTORS * COUNT);
    }

    METHOD void prepare(int step)
    {
        const auto window = [&](int line) { return window_at<Element>(geometry, image, step + line); };
        lookup_lines(windows, thread, APART, window);
    }

    METHOD void load(u32 target, int) const
    {
        UNROLL
        for (int item = 0; item < PER_THREAD; ++item) {
            const u32 own = target + swizzled_offset(thread / VECTORS + item * APART, thread % VECTORS);
            const u64 first = whole + windows[item].nbytes();
            UNROLL
            for (int group = 0; group < GROUPS; ++group)
                copy_async<VECTOR>(own + group * (STEPS * LINE), at_address(first + taps[group].nbytes),
                                   inside(last, windows[item].place + taps[group].place));
        }
    }

    METHOD void finish_load(u32) const {}
};
