// Operands of convolutions: rows or columns of a matrix that is nowhere, for its elements are those of pictures, with the
// channels last, that the taps of a window see. Nothing is copied but to shared memory (implicit GEMM; Chetlur and others,
// cuDNN, arXiv:1410.0759, section 3). Channels of a group are a multiple of a vector.
#pragma once
#include "matrices.cuh"

struct Picture {
    const void *first;
    i64 image, row, pixel;  // elements from one to the next
    int height, width;
};

// Pixels of a grid and taps of a window: pixel (image, i, j) sees through tap (r, s) the source's pixel
// (i * step_down + r * tap_down + from_down, j * step_across + s * tap_across + from_across).
struct Walk {
    int pixels, steps;              // of all pictures; taps times channels
    Divisor of_picture, of_row;     // pixels of the grid
    int step_down, step_across, from_down, from_across;
    int tap_down, tap_across;
    Divisor of_taps, of_channels;   // taps in a row of the window; channels
};

struct Pixel {
    int image, down, across;
};

WORD Pixel pixel_at(const Walk &walk, int number)
{
    const int image = quotient(number, walk.of_picture), within = number - image * static_cast<int>(walk.of_picture.divisor);
    const int down = quotient(within, walk.of_row);
    const Pixel pixel = {image, down, within - down * static_cast<int>(walk.of_row.divisor)};
    return pixel;
}

// Two coordinates in one word, added and subtracted as one: sixteen bits each, of which a negative one across borrows one from
// the one down. None leaves [-2^15, 2^15); kernels/cuda/pictures.py sees to it.
enum { BEYOND = 1 << 14 };  // more than any coordinate, of a picture or of what is around it

WORD u32 both(int down, int across) { return (static_cast<u32>(down) << 16) + static_cast<u32>(across); }

// Whether a place is inside of a picture, whose last one is given: neither is it negative nor what is left.
WORD bool inside(u32 last, u32 place) { return ((place | (last - place)) & 0x80008000) == 0; }

WORD u32 last_of(const Picture &picture) { return both(picture.height - 1, picture.width - 1); }

// Where the window of a pixel begins: its place, and its offset in bytes; words that lanes can exchange.
struct Window {
    u32 place, offset[2];
    METHOD u64 nbytes() const { return static_cast<u64>(offset[1]) << 32 | offset[0]; }
};

template <class Element> WORD Window window_at(const Walk &walk, const Picture &picture, int number)
{
    const bool there = number < walk.pixels;
    const Pixel pixel = pixel_at(walk, there ? number : 0);
    const int down = pixel.down * walk.step_down + walk.from_down, across = pixel.across * walk.step_across + walk.from_across;
    const u64 offset = (pixel.image * picture.image + down * picture.row + across * picture.pixel) * sizeof(Element);
    return {both(there ? down : -BEYOND - 1, across), {static_cast<u32>(offset), static_cast<u32>(offset >> 32)}};
}

// Where a tap and a channel are, from where a window begins; beyond every picture, if there are none.
struct Tap {
    u32 place;
    u64 nbytes;
};

template <class Element> WORD Tap tap_at(const Walk &walk, const Picture &picture, int step)
{
    const int number = quotient(step, walk.of_channels), channel = step - number * static_cast<int>(walk.of_channels.divisor);
    const int r = quotient(number, walk.of_taps), s = number - r * static_cast<int>(walk.of_taps.divisor);
    const int down = r * walk.tap_down, across = s * walk.tap_across;
    const u64 nbytes = (down * picture.row + across * picture.pixel + channel) * sizeof(Element);
    return {both(step < walk.steps ? down : BEYOND, across), nbytes};
}

WORD u64 address_of(const void *place) { return reinterpret_cast<u64>(place); }
WORD const void *at_address(u64 address) { return reinterpret_cast<const void *>(address); }

// Each thread of a team that brings lines, eight threads a line, `apart` lines from one of its own to the next, gets what
// `find` says of its lines. A lane finds one, and gets the others from the lanes that did: `Found` consists of words.
template <int MINE, class Found, class Find> WORD void find_lines(Found (&found)[MINE], int thread, int apart, const Find &find)
{
    enum { LINES = 32 / VECTORS, AT_ONCE = 32 / LINES, WORDS = sizeof(Found) / sizeof(u32) };
    const int lane = thread % 32;
    UNROLLED
    for (int begin = 0; begin < MINE; begin += AT_ONCE) {
        const Found own = find(thread / 32 * LINES + lane % LINES + (begin + lane / LINES) * apart);
        u32 words[WORDS], got[WORDS];
        memcpy(words, &own, sizeof(own));
        UNROLLED
        for (int mine = begin; mine < begin + AT_ONCE && mine < MINE; ++mine) {
            UNROLLED
            for (int word = 0; word < WORDS; ++word) got[word] = from_lane(words[word], (mine - begin) * LINES + lane / VECTORS);
            memcpy(&found[mine], got, sizeof(own));
        }
    }
}

WORD void round_vector(u32 place)
{
    Vector<u32, 4> words = load_shared<Vector<u32, 4>>(place);
    UNROLLED
    for (int i = 0; i < 4; ++i) words.values[i] = to_tf32(words.values[i]);
    store_shared(place, words);
}

// Operands as in matrices.cuh. `settle` is for what has landed, by the threads that copied it.

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

    METHOD void aim(int step) { tap = tap_at<Element>(walk, picture, step + thread % VECTORS * Width<Type>::VECTOR_ELEMENTS); }

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

// Weights as steps (tap, filter) of a product whose columns are channels: a line is a filter's channels at a tap. Taps are
// those that a phase sees.
struct Weights {
    Divisor of_filters, of_taps;
    int skipped, row, column;   // elements before the first tap, and from one to the next
    int steps, channels;
};

// Where a step's channels are among a filter's, or less than 0, and which filter it is.
struct Weight {
    int tap, filter;
};

WORD Weight weight_at(const Weights &weights, int step)
{
    const int tap = quotient(step, weights.of_filters), filter = step - tap * static_cast<int>(weights.of_filters.divisor);
    const int r = quotient(tap, weights.of_taps), s = tap - r * static_cast<int>(weights.of_taps.divisor);
    return {step < weights.steps ? weights.skipped + r * weights.row + s * weights.column : -BEYOND, filter};
}

template <class Type, int COLUMNS, int THREADS> struct WeightsByColumns {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_COLUMNS, NBYTES = COLUMNS * LINE, STEPS = Width<Type>::ELEMENTS, GROUPS = COLUMNS / STEPS };
    enum { APART = THREADS / VECTORS, MINE = STEPS / APART, COUNT = Width<Type>::VECTOR_ELEMENTS };
    static_assert(STEPS % APART == 0 && COLUMNS % STEPS == 0, "threads share the lines out evenly");

    const Weights &weights;
    const Matrix &matrix;  // whose lines are the filters of a group
    const int thread;
    int channel;
    Weight lines[MINE];

    METHOD WeightsByColumns(const Weights &weights, const Matrix &matrix, int thread)
        : weights(weights), matrix(matrix), thread(thread), channel(0)
    {
    }

    METHOD void begin(int column) { channel = column + thread % VECTORS * COUNT; }

    METHOD void aim(int step)
    {
        find_lines(lines, thread, APART, [&](int line) { return weight_at(weights, step + line); });
    }

    METHOD void bring(u32 target, int) const
    {
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            const u32 own = target + vector_place(thread / VECTORS + mine * APART, thread % VECTORS);
            const Element *source = static_cast<const Element *>(matrix.first) + lines[mine].filter * matrix.pitch;
            source += lines[mine].tap + channel;
            UNROLLED
            for (int group = 0; group < GROUPS; ++group)
                copy_async<VECTOR>(own + group * (STEPS * LINE), source + group * STEPS,
                                   lines[mine].tap >= 0 && channel + group * STEPS < weights.channels);
        }
    }

    METHOD void settle(u32) const {}
};
