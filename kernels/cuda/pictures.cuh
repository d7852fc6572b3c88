// Operands of convolutions: rows or columns of a matrix that is nowhere, for its elements are those of pictures, with the
// channels last, that the taps of a window see. Nothing is copied but to shared memory (implicit GEMM; Chetlur and others,
// cuDNN, arXiv:1410.0759, section 3). Channels of a group are a multiple of a vector.
#pragma once
#include "tile.cuh"

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

// Where a tap and a channel are, from where a pixel's window begins.
struct Tap {
    int down, across;
    i64 offset;
};

WORD Tap tap_at(const Walk &walk, const Picture &picture, int step)
{
    const int number = quotient(step, walk.of_channels), channel = step - number * static_cast<int>(walk.of_channels.divisor);
    const int r = quotient(number, walk.of_taps), s = number - r * static_cast<int>(walk.of_taps.divisor);
    const int down = r * walk.tap_down, across = s * walk.tap_across;
    const Tap tap = {down, across, down * picture.row + across * picture.pixel + channel};
    return tap;
}

WORD bool sees(const Picture &picture, int down, int across)
{
    return static_cast<u32>(down) < static_cast<u32>(picture.height) && static_cast<u32>(across) < static_cast<u32>(picture.width);
}

// A line is a pixel, its columns are taps and channels.
template <class Type, int ROWS, int THREADS> struct PixelsByRows {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_ROWS, NBYTES = ROWS * LINE, APART = THREADS / VECTORS, MINE = ROWS / APART };
    enum { COUNT = Width<Type>::VECTOR_ELEMENTS, NOWHERE = -(1 << 15) };
    static_assert(ROWS % APART == 0, "threads share the rows out evenly");

    const Picture &picture;
    const Walk &walk;
    const Element *const whole;
    const int line, vector;
    i64 first[MINE];
    int corner[MINE];  // of the window: down in the upper half, across in the lower one

    METHOD PixelsByRows(const Picture &picture, const Walk &walk, i64 group, int thread)
        : picture(picture), walk(walk), whole(static_cast<const Element *>(picture.first) + group),
          line(thread / VECTORS), vector(thread % VECTORS)
    {
    }

    METHOD void begin(int row)
    {
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            const int number = row + line + mine * APART;
            const Pixel pixel = pixel_at(walk, number < walk.pixels ? number : 0);
            const int down = number < walk.pixels ? pixel.down * walk.step_down + walk.from_down : NOWHERE;
            const int across = pixel.across * walk.step_across + walk.from_across;
            corner[mine] = static_cast<int>(static_cast<u32>(down) << 16 | (static_cast<u32>(across) & 0xffff));
            first[mine] = pixel.image * picture.image + down * picture.row + across * picture.pixel;
        }
    }

    METHOD void bring(u32 target, int step) const
    {
        const int at = step + vector * COUNT;
        const Tap tap = tap_at(walk, picture, at);
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            const int down = (corner[mine] >> 16) + tap.down, across = static_cast<short>(corner[mine]) + tap.across;
            const bool there = at < walk.steps && sees(picture, down, across);
            copy_async<VECTOR>(target + vector_place(line + mine * APART, vector),
                               there ? whole + first[mine] + tap.offset : whole, there);
        }
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
    const Element *const whole;
    const int line, vector;
    Tap taps[GROUPS];
    bool there[GROUPS];

    METHOD PixelsByColumns(const Picture &picture, const Walk &walk, i64 group, int thread)
        : picture(picture), walk(walk), whole(static_cast<const Element *>(picture.first) + group),
          line(thread / VECTORS), vector(thread % VECTORS)
    {
    }

    METHOD void begin(int column)
    {
        UNROLLED
        for (int group = 0; group < GROUPS; ++group) {
            const int at = column + group * STEPS + vector * COUNT;
            there[group] = at < walk.steps;
            taps[group] = tap_at(walk, picture, at);
        }
    }

    METHOD void bring(u32 target, int step) const
    {
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            const int at = line + mine * APART, number = step + at;
            const Pixel pixel = pixel_at(walk, number);
            const int down = pixel.down * walk.step_down + walk.from_down;
            const int across = pixel.across * walk.step_across + walk.from_across;
            const Element *corner = whole + pixel.image * picture.image + down * picture.row + across * picture.pixel;
            UNROLLED
            for (int group = 0; group < GROUPS; ++group) {
                const Tap &tap = taps[group];
                const bool found = there[group] && number < walk.pixels && sees(picture, down + tap.down, across + tap.across);
                copy_async<VECTOR>(target + group * (STEPS * LINE) + vector_place(at, vector),
                                   found ? corner + tap.offset : whole, found);
            }
        }
    }
};

// Weights as steps (tap, filter) of a product whose columns are channels: a line is a filter's channels at a tap.
struct Weights {
    const void *first;
    i64 filter, row, column;   // elements from one to the next; of taps
    Divisor of_filters, of_taps;
    int steps, channels;
};

template <class Type, int COLUMNS, int THREADS> struct WeightsByColumns {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_COLUMNS, NBYTES = COLUMNS * LINE, STEPS = Width<Type>::ELEMENTS, GROUPS = COLUMNS / STEPS };
    enum { APART = THREADS / VECTORS, MINE = STEPS / APART, COUNT = Width<Type>::VECTOR_ELEMENTS };
    static_assert(STEPS % APART == 0 && COLUMNS % STEPS == 0, "threads share the lines out evenly");

    const Weights &weights;
    const Element *const whole;
    const int line, vector;
    int channel;

    METHOD WeightsByColumns(const Weights &weights, i64 group, int thread)
        : weights(weights), whole(static_cast<const Element *>(weights.first) + group), line(thread / VECTORS),
          vector(thread % VECTORS), channel(0)
    {
    }

    METHOD void begin(int column) { channel = column + vector * COUNT; }

    METHOD void bring(u32 target, int step) const
    {
        UNROLLED
        for (int mine = 0; mine < MINE; ++mine) {
            const int at = line + mine * APART, number = step + at;
            const int tap = quotient(number, weights.of_filters);
            const int filter = number - tap * static_cast<int>(weights.of_filters.divisor);
            const int r = quotient(tap, weights.of_taps), s = tap - r * static_cast<int>(weights.of_taps.divisor);
            const Element *source = whole + filter * weights.filter + r * weights.row + s * weights.column + channel;
            UNROLLED
            for (int group = 0; group < GROUPS; ++group) {
                const bool there = number < weights.steps && channel + group * STEPS < weights.channels;
                copy_async<VECTOR>(target + group * (STEPS * LINE) + vector_place(at, vector),
                                   there ? source + group * STEPS : whole, there);
            }
        }
    }
};
