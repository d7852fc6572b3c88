// Crop, resize and mirror byte images, [n][height][width][3] -> [n][side][side][3], with the arithmetic of __init__.py.
// One thread computes all channels of one output pixel and its own weights, which for two or three taps a side costs
// less than sharing them. No header is included, so that NVRTC compiles it on any system.

#define WEIGHT_BITS 15
#define ROW_BITS 8
#define LAST_BITS (2 * WEIGHT_BITS - ROW_BITS)
#define CHANNELS 3

struct Taps {
    int begin, end;  // source pixels with a weight, within the box
    int reach, centre, side;
    int total, largest, missing;
};

__device__ __forceinline__ int triangle(const Taps &taps, int j)
{
    const int distance = (2 * j + 1) * taps.side - taps.centre;
    return taps.reach - (distance < 0 ? -distance : distance);
}

__device__ __forceinline__ int rounded_down(const Taps &taps, int j)
{
    return (triangle(taps, j) << WEIGHT_BITS) / taps.total;
}

__device__ __forceinline__ int weight(const Taps &taps, int j)
{
    return rounded_down(taps, j) + (j == taps.largest ? taps.missing : 0);
}

__device__ __forceinline__ Taps taps_of(int i, int size, int side)
{
    Taps taps;
    taps.side = side;
    taps.reach = 2 * (size > side ? size : side);
    taps.centre = (2 * i + 1) * size;
    const int before = taps.centre - taps.reach - side;
    const int end = (taps.centre + taps.reach - side - 1) / (2 * side) + 1;
    taps.begin = before >= 0 ? before / (2 * side) + 1 : 0;
    taps.end = end < size ? end : size;
    taps.total = 0;
    for (int j = taps.begin; j < taps.end; ++j) taps.total += triangle(taps, j);
    taps.largest = taps.begin;
    taps.missing = 1 << WEIGHT_BITS;
    for (int j = taps.begin; j < taps.end; ++j) {
        taps.missing -= rounded_down(taps, j);
        if (triangle(taps, j) > triangle(taps, taps.largest)) taps.largest = j;
    }
    return taps;
}

// Grid: x columns of the result, y rows, z images. boxes[n][5]: top, left, height, width, mirrored.
extern "C" __global__ void crop(const unsigned char *images, const int *boxes, unsigned char *out, int height,
                                int width, int side)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= side) return;
    const int *box = boxes + 5 * static_cast<long long>(blockIdx.z);
    const unsigned char *corner =
        images + CHANNELS * ((static_cast<long long>(blockIdx.z) * height + box[0]) * width + box[1]);
    const Taps rows = taps_of(y, box[2], side);
    const Taps columns = taps_of(box[4] ? side - 1 - x : x, box[3], side);

    int sums[CHANNELS];
    for (int c = 0; c < CHANNELS; ++c) sums[c] = 1 << (LAST_BITS - 1);
    for (int j = columns.begin; j < columns.end; ++j) {
        int column[CHANNELS];
        for (int c = 0; c < CHANNELS; ++c) column[c] = 1 << (ROW_BITS - 1);
        for (int k = rows.begin; k < rows.end; ++k) {
            const int of_row = weight(rows, k);
            for (int c = 0; c < CHANNELS; ++c) column[c] += of_row * corner[CHANNELS * (k * width + j) + c];
        }
        const int of_column = weight(columns, j);
        for (int c = 0; c < CHANNELS; ++c) sums[c] += of_column * (column[c] >> ROW_BITS);
    }
    unsigned char *pixel = out + CHANNELS * ((static_cast<long long>(blockIdx.z) * side + y) * side + x);
    for (int c = 0; c < CHANNELS; ++c) pixel[c] = static_cast<unsigned char>(sums[c] >> LAST_BITS);
}
