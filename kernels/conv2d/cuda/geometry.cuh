// What the taps of a window see of pictures with the channels last: where windows begin, where taps and channels are
// from there, and how the lanes of a warp find such places for one another.
#pragma once
#include "shared_tile.cuh"

struct Image {
    const void *first;
    i64 image_stride, row_stride, pixel_stride;  // elements from one to the next
    int height, width;
};

// Pixels of a grid and taps of a window: pixel (image, i, j) sees through tap (r, s) the source's pixel
// (i * step_down + r * tap_down + from_down, j * step_across + s * tap_across + from_across).
struct Geometry {
    int pixels, steps;              // of all pictures; taps times channels
    Divisor of_image, of_row;     // pixels of the grid
    int step_down, step_across, from_down, from_across;
    int tap_down, tap_across;
    Divisor of_taps, of_channels;   // taps in a row of the window; channels
};

struct Pixel {
    int image, down, across;
};

DEVICE Pixel pixel_at(const Geometry &geometry, int number)
{
    const int image = quotient(number, geometry.of_image);
    const int within = number - image * static_cast<int>(geometry.of_image.divisor);
    const int down = quotient(within, geometry.of_row);
    const Pixel pixel = {image, down, within - down * static_cast<int>(geometry.of_row.divisor)};
    return pixel;
}

// Two coordinates in one word, added and subtracted as one: sixteen bits each, of which a negative one across borrows
// one from the one down. None leaves [-2^15, 2^15); kernels/conv2d/cuda/geometry.py sees to it.
enum { BEYOND = 1 << 14 };  // more than any coordinate, of a image or of what is around it

DEVICE u32 packed_coordinates(int down, int across) { return (static_cast<u32>(down) << 16) + static_cast<u32>(across); }

// Whether a place is inside of a image, whose last one is given: neither is it negative nor what is left.
DEVICE bool inside(u32 last, u32 place) { return ((place | (last - place)) & 0x80008000) == 0; }

DEVICE u32 last_of(const Image &image) { return packed_coordinates(image.height - 1, image.width - 1); }

// Where the window of a pixel begins: its place, and its offset in bytes; words that lanes can exchange.
struct Window {
    u32 place, offset[2];
    METHOD u64 nbytes() const { return static_cast<u64>(offset[1]) << 32 | offset[0]; }
};

template <class Element> DEVICE Window window_at(const Geometry &geometry, const Image &image, int number)
{
    const bool there = number < geometry.pixels;
    const Pixel pixel = pixel_at(geometry, there ? number : 0);
    const int down = pixel.down * geometry.step_down + geometry.from_down;
    const int across = pixel.across * geometry.step_across + geometry.from_across;
    const u64 offset = (pixel.image * image.image_stride + down * image.row_stride + across * image.pixel_stride) * sizeof(Element);
    return {packed_coordinates(there ? down : -BEYOND - 1, across), {static_cast<u32>(offset), static_cast<u32>(offset >> 32)}};
}

// Where a tap and a channel are, from where a window begins; beyond every image, if there are none.
struct Tap {
    u32 place;
    u64 nbytes;
};

template <class Element> DEVICE Tap tap_at(const Geometry &geometry, const Image &image, int step)
{
    const int number = quotient(step, geometry.of_channels);
    const int channel = step - number * static_cast<int>(geometry.of_channels.divisor);
    const int r = quotient(number, geometry.of_taps), s = number - r * static_cast<int>(geometry.of_taps.divisor);
    const int down = r * geometry.tap_down, across = s * geometry.tap_across;
    const u64 nbytes = (down * image.row_stride + across * image.pixel_stride + channel) * sizeof(Element);
    return {packed_coordinates(step < geometry.steps ? down : BEYOND, across), nbytes};
}

DEVICE u64 address_of(const void *place) { return reinterpret_cast<u64>(place); }
DEVICE const void *at_address(u64 address) { return reinterpret_cast<const void *>(address); }

// Each thread of a team that brings lines, eight threads a line, `apart` lines from one of its own to the next, gets
// what `find` says of its lines. A lane finds one, and gets the others from the lanes that did: `Found` consists of
// words.
template <int PER_THREAD, class Found, class Find>
DEVICE void lookup_lines(Found (&found)[PER_THREAD], int thread, int apart, const Find &find)
{
    enum { LINES = 32 / VECTORS, AT_ONCE = 32 / LINES, WORDS = sizeof(Found) / sizeof(u32) };
    const int lane = thread % 32;
    UNROLL
    for (int begin = 0; begin < PER_THREAD; begin += AT_ONCE) {
        const Found own = find(thread / 32 * LINES + lane % LINES + (begin + lane / LINES) * apart);
        u32 words[WORDS], got[WORDS];
        memcpy(words, &own, sizeof(own));
        UNROLL
        for (int item = begin; item < begin + AT_ONCE && item < PER_THREAD; ++item) {
            UNROLL
            for (int word = 0; word < WORDS; ++word)
                got[word] = shuffle(words[word], (item - begin) * LINES + lane / VECTORS);
            memcpy(&found[item], got, sizeof(own));
        }
    }
}
