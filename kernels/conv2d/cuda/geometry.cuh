// What the taps of a window see of pictures with the channels last: where windows begin, where taps and channels are
// from there, and how the lanes of a warp find such places for one another.
#pragma once
#include "shared_tile.cuh"

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
    const int image = quotient(number, walk.of_picture);
    const int within = number - image * static_cast<int>(walk.of_picture.divisor);
    const int down = quotient(within, walk.of_row);
    const Pixel pixel = {image, down, within - down * static_cast<int>(walk.of_row.divisor)};
    return pixel;
}

// Two coordinates in one word, added and subtracted as one: sixteen bits each, of which a negative one across borrows
// one from the one down. None leaves [-2^15, 2^15); kernels/conv2d/cuda/geometry.py sees to it.
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
    const int down = pixel.down * walk.step_down + walk.from_down;
    const int across = pixel.across * walk.step_across + walk.from_across;
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
    const int number = quotient(step, walk.of_channels);
    const int channel = step - number * static_cast<int>(walk.of_channels.divisor);
    const int r = quotient(number, walk.of_taps), s = number - r * static_cast<int>(walk.of_taps.divisor);
    const int down = r * walk.tap_down, across = s * walk.tap_across;
    const u64 nbytes = (down * picture.row + across * picture.pixel + channel) * sizeof(Element);
    return {both(step < walk.steps ? down : BEYOND, across), nbytes};
}

WORD u64 address_of(const void *place) { return reinterpret_cast<u64>(place); }
WORD const void *at_address(u64 address) { return reinterpret_cast<const void *>(address); }

// Each thread of a team that brings lines, eight threads a line, `apart` lines from one of its own to the next, gets
// what `find` says of its lines. A lane finds one, and gets the others from the lanes that did: `Found` consists of
// words.
template <int MINE, class Found, class Find>
WORD void find_lines(Found (&found)[MINE], int thread, int apart, const Find &find)
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
            for (int word = 0; word < WORDS; ++word)
                got[word] = from_lane(words[word], (mine - begin) * LINES + lane / VECTORS);
            memcpy(&found[mine], got, sizeof(own));
        }
    }
}
