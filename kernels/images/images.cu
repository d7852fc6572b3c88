// Generated images, in integers only; __init__.py defines each draw.
#include "ptx.cuh"

enum { CHANNELS = 3, MOST_CELLS = 64, LEAST_GAIN = 64, GAINS = 48, BRIGHTEST = 225 };

// Parameters, in the order of cupy_gpu.numbers.
struct Formula {
    u32 key0, key1, code_tag, view_tag, cell_tag, noise_tag;
    u32 classes, symbols, synonyms, grid, shifts, corrupted, side, cell;
};

struct Words {
    u32 w[4];
};

struct View {
    u32 down, right, gain, offset;
};

DEVICE Words philox(Words c, u32 key0, u32 key1) {
    for (int round = 0; round < 10; ++round) {
        const u64 p0 = (u64)c.w[0] * 0xD2511F53u, p1 = (u64)c.w[2] * 0xCD9E8D57u;
        const Words next = {{(u32)(p1 >> 32) ^ c.w[1] ^ key0, (u32)p1, (u32)(p0 >> 32) ^ c.w[3] ^ key1, (u32)p0}};
        c = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

DEVICE Words draw(const Formula &f, u32 tag, u64 index, u32 instance) {
    const Words counter = {{(u32)index, (u32)(index >> 32), instance, tag}};
    return philox(counter, f.key0, f.key1);
}

DEVICE u32 below(u32 bound, u32 word) { return (u32)((u64)word * bound >> 32); }

// Texture of a sample in a cell.
DEVICE u32 texture_of(const Formula &f, u64 index, u32 cell) {
    const Words words = draw(f, f.cell_tag, index, cell);
    u32 symbol;
    if (words.w[0] < f.corrupted)
        symbol = below(f.symbols, words.w[1]);
    else
        symbol = below(f.symbols, draw(f, f.code_tag, index % f.classes, cell / 4).w[cell % 4]);
    return symbol * f.synonyms + below(f.synonyms, words.w[2]);
}

DEVICE View view_of(const Formula &f, u64 index) {
    const Words words = draw(f, f.view_tag, index, 0);
    const u32 gain = LEAST_GAIN + below(GAINS, words.w[2]);
    const u32 range = f.shifts * f.cell;
    const View view = {below(range, words.w[0]), below(range, words.w[1]), gain,
                       below(BRIGHTEST + 1 - (255 * gain >> 7), words.w[3])};
    return view;
}

// Texture byte at a byte of the image.
DEVICE u32 texel(const Formula &f, const u8 *table, const u32 *textures, const View &view, u32 byte) {
    const u32 size = f.grid * f.cell, row = byte / f.side;
    const u32 v = (row % f.side + view.down) % size, u = (byte % f.side + view.right) % size;
    const u32 texture = textures[v / f.cell * f.grid + u / f.cell];
    return table[((texture * CHANNELS + row / f.side) * f.cell + v % f.cell) * f.cell + u % f.cell];
}

// Write the sixteen bytes of an image whose noise comes from block j: four in each quarter.
DEVICE void write_block(
    const Formula &f, const u8 *table, const u32 *textures, const View &view, u64 index, u32 j, u8 *image) {
    const u32 nbytes = CHANNELS * f.side * f.side, quarter = (nbytes + 15) / 16;
    const Words words = draw(f, f.noise_tag, index, j);
    for (u32 k = 0; k < 16; ++k) {
        const u32 byte = 4 * (k / 4 * quarter + j) + k % 4;
        const u32 noise = words.w[k / 4] >> 8 * (k % 4) & 255;
        if (byte < nbytes) {
            const u32 lit = view.offset + (texel(f, table, textures, view, byte) * view.gain >> 7);
            image[byte] = (u8)(lit + (noise & 15) + (noise >> 4));
        }
    }
}

// Block (n, b) writes the part of sample n whose noise comes from the Philox blocks from b * blockDim.x on.
extern "C" __global__ void images(u8 *out, const long long *indices, const u8 *table, const Formula *formula) {
    __shared__ u32 textures[MOST_CELLS];
    const Formula f = *formula;
    const u64 index = (u64)indices[blockIdx.x], nbytes = (u64)CHANNELS * f.side * f.side;
    for (u32 cell = threadIdx.x; cell < f.grid * f.grid; cell += blockDim.x)
        textures[cell] = texture_of(f, index, cell);
    sync_block();
    const u32 j = blockIdx.y * blockDim.x + threadIdx.x;
    if (j < (nbytes + 15) / 16)
        write_block(f, table, textures, view_of(f, index), index, j, out + blockIdx.x * nbytes);
}

#ifndef __CUDACC__

// One draw, for known-answer tests.
extern "C" void philox_on_host(const u32 *counter, const u32 *key, u32 *out) {
    const Words words = {{counter[0], counter[1], counter[2], counter[3]}}, drawn = philox(words, key[0], key[1]);
    for (int k = 0; k < 4; ++k)
        out[k] = drawn.w[k];
}

#endif
