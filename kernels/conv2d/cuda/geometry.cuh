// Geometry of a convolution, channels last: where windows begin in an image, offsets of taps and channels in a window,
// and the exchange of such positions between the lanes of a warp.
#pragma once
#include "shared_tile.cuh"

struct Image {
    const void *first;
    i64 image_stride, row_stride, pixel_stride;  // elements
    int height, width;
};

// Output pixels and taps: pixel (image, i, j) sees through tap (r, s) the source pixel (i * step_down + r * tap_down +
// from_down, j * step_across + s * tap_across + from_across).
struct Geometry {
    int pixels, steps;              // of all images; taps x channels
    Divisor of_image, of_row;     // output pixels of an image, of a row
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

// Two 16-bit coordinates in one word, added and subtracted together; a negative coordinate across borrows from the one
// down. Coordinates stay within [-2^15, 2^15), which kernels/conv2d/cuda/geometry.py checks.
enum { BEYOND = 1 << 14 };  // larger than any coordinate

DEVICE u32 coordinates(int down, int across) { return (static_cast<u32>(down) << 16) + static_cast<u32>(across); }

// Whether coordinates are inside an image whose last coordinates are given: neither they nor the difference is
// negative.
DEVICE bool inside(u32 last, u32 place) { return ((place | (last - place)) & 0x80008000) == 0; }

DEVICE u32 last_of(const Image &image) { return coordinates(image.height - 1, image.width - 1); }

// First coordinates of a window, and its byte offset, in words that lanes can exchange.
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
    const i64 elements = pixel.image * image.image_stride + down * image.row_stride + across * image.pixel_stride;
    const u64 offset = elements * sizeof(Element);
    const u32 place = coordinates(there ? down : -BEYOND - 1, across);
    return {place, {static_cast<u32>(offset), static_cast<u32>(offset >> 32)}};
}

// Coordinates and byte offset of a tap and a channel relative to the window; outside every image beyond the last step.
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
    return {coordinates(step < geometry.steps ? down : BEYOND, across), nbytes};
}

DEVICE u64 address_of(const void *place) { return reinterpret_cast<u64>(place); }
DEVICE const void *at_address(u64 address) { return reinterpret_cast<const void *>(address); }

// Results of `find` for the lines that a thread loads: eight threads load a line, and the lines of a thread are `apart`
// lines apart. Each lane computes one result and gets the others by shuffles. `Found` must consist of words.
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
