// RoIAlign, channels last, and its gradient: the arithmetic of __init__.py, positions in double, sums in float. Both
// directions write each number once, in a fixed order, without atomic sums, so results are reproducible. The regions
// stay on the GPU.
#include "ptx.cuh"

#define GROUP 32  // regions that one word of bits covers

struct Tap {
    int before, after;        // pixels
    float of_before, of_after;  // weights; both 0 if the sample lies outside
};

struct Line {
    double first, step;  // sample of bin b at fraction f: first + (b + f) * step
    int size;
};

DEVICE Line line_of(float low, float high, double scale, int side, int size)
{
    Line line;
    line.first = static_cast<double>(low) * scale - 0.5;
    line.step = (static_cast<double>(high) - static_cast<double>(low)) * scale / side;
    line.size = size;
    return line;
}

DEVICE Tap tap_of(const Line &line, int bin, int sample, int samples)
{
    Tap tap = {0, 0, 0.0f, 0.0f};
    const double point = line.first + (bin + (sample + 0.5) / samples) * line.step;
    if (!(point >= -1.0 && point <= line.size)) return tap;
    double inside = point > 0.0 ? point : 0.0;
    if (inside > line.size - 1.0) inside = line.size - 1.0;
    tap.before = static_cast<int>(inside);
    tap.after = tap.before + 1 < line.size ? tap.before + 1 : line.size - 1;
    const double fraction = inside - tap.before;
    tap.of_before = static_cast<float>((1.0 - fraction) / samples);
    tap.of_after = static_cast<float>(fraction / samples);
    return tap;
}

// Weight of a pixel in a bin along one side.
DEVICE float weight_of(const Line &line, int bin, int samples, int pixel)
{
    float weight = 0.0f;
    for (int sample = 0; sample < samples; ++sample) {
        const Tap tap = tap_of(line, bin, sample, samples);
        if (tap.before == pixel) weight += tap.of_before;
        if (tap.after == pixel) weight += tap.of_after;
    }
    return weight;
}

// Whether samples of a region may weight a pixel; false only if none does.
DEVICE bool reaches(const Line &line, int side, int pixel)
{
    const double last = line.first + side * line.step;
    const double low = line.first < last ? line.first : last, high = line.first < last ? last : line.first;
    return pixel >= low - 2.0 && pixel <= high + 2.0;
}

DEVICE float sample_of(const float *pixels, int width, int channels, const Tap &row,
                                           const Tap &column)
{
    const float *above = pixels + static_cast<long long>(row.before) * width * channels;
    const float *below = pixels + static_cast<long long>(row.after) * width * channels;
    const long long left = static_cast<long long>(column.before) * channels;
    const long long right = static_cast<long long>(column.after) * channels;
    const float upper = column.of_before * above[left] + column.of_after * above[right];
    const float lower = column.of_before * below[left] + column.of_after * below[right];
    return row.of_before * upper + row.of_after * lower;
}

// out[image][region][side][side][channels]. Grid: x regions, y images; memory of a block: 2 * side * samples taps.
extern "C" __global__ void pool(const float *features, const float *regions, const int *level, int own, double scale,
                                int height, int width, int channels, int side, int samples, float *out)
{
    Tap *taps = reinterpret_cast<Tap *>(shared_memory());
    const long long region = static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x;
    if (level[region] != own) return;
    const float *box = regions + 4 * region;
    const Line rows = line_of(box[0], box[2], scale, side, height);
    const Line columns = line_of(box[1], box[3], scale, side, width);
    const int points = side * samples;
    for (int k = threadIdx.x; k < 2 * points; k += blockDim.x)
        taps[k] = tap_of(k < points ? rows : columns, k % points / samples, k % samples, samples);
    sync_block();
    const float *pixels = features + static_cast<long long>(blockIdx.y) * height * width * channels;
    float *target = out + region * side * side * channels;
    for (int k = threadIdx.x; k < side * side * channels; k += blockDim.x) {
        const int bin = k / channels, channel = k % channels;
        const Tap *row = taps + bin / side * samples, *column = taps + points + bin % side * samples;
        float sum = 0.0f;
        for (int i = 0; i < samples; ++i)
            for (int j = 0; j < samples; ++j)
                sum += sample_of(pixels + channel, width, channels, row[i], column[j]);
        target[k] = sum;
    }
}

// Weights of a pixel in the rows, then in the columns, of the bins of a region; threads divide them.
DEVICE void weigh(const float *box, double scale, int side, int samples, int height, int width, int y,
                                      int x, float *weights)
{
    const Line rows = line_of(box[0], box[2], scale, side, height);
    const Line columns = line_of(box[1], box[3], scale, side, width);
    for (int k = threadIdx.x; k < 2 * side; k += blockDim.x)
        weights[k] = k < side ? weight_of(rows, k, samples, y) : weight_of(columns, k - side, samples, x);
}

// Sum over the bins of a region, for one channel.
DEVICE float weighed(const float *bins, int channels, int side, const float *weights)
{
    float sum = 0.0f;
    for (int i = 0; i < side; ++i)
        for (int j = 0; weights[i] != 0.0f && j < side; ++j)
            if (weights[side + j] != 0.0f)
                sum += weights[i] * weights[side + j] * bins[static_cast<long long>(i * side + j) * channels];
    return sum;
}

// into[image][height][width][channels] += ... A block has one pixel and blockDim.x of its channels, and visits all
// regions of the image. Grid: x columns, y rows, z images x parts of the channels. Memory of a block: 2 * side weights,
// then a word for each GROUP threads.
extern "C" __global__ void spread(const float *gradient, const float *regions, const int *level, int own, double scale,
                                  int number, int height, int width, int channels, int side, int samples, float *into)
{
    float *weights = reinterpret_cast<float *>(shared_memory());
    u32 *reached = reinterpret_cast<u32 *>(weights + 2 * side);
    const int parts = (channels + blockDim.x - 1) / blockDim.x, image = blockIdx.z / parts;
    const int thread = threadIdx.x, threads = blockDim.x, groups = threads / GROUP;
    const int channel = static_cast<int>(blockIdx.z) % parts * threads + thread;
    const int x = blockIdx.x, y = blockIdx.y;
    const float *boxes = regions + 4 * static_cast<long long>(image) * number;
    const int *levels = level + static_cast<long long>(image) * number;
    const float *bins = gradient + static_cast<long long>(image) * number * side * side * channels;
    float sum = 0.0f;
    for (int first = 0; first < number; first += threads) {
        if (thread < groups) reached[thread] = 0;
        sync_block();
        const int own_region = first + thread;
        if (own_region < number && levels[own_region] == own) {
            const float *box = boxes + 4 * own_region;
            if (reaches(line_of(box[0], box[2], scale, side, height), side, y) &&
                reaches(line_of(box[1], box[3], scale, side, width), side, x))
                set_bits(&reached[thread / GROUP], 1u << thread % GROUP);
        }
        sync_block();
        for (int group = 0; group < groups; ++group)
            for (u32 left = reached[group]; left; left &= left - 1) {
                const int region = first + group * GROUP + lowest_bit(left);
                weigh(boxes + 4 * region, scale, side, samples, height, width, y, x, weights);
                sync_block();
                const float *of_region = bins + static_cast<long long>(region) * side * side * channels;
                if (channel < channels) sum += weighed(of_region + channel, channels, side, weights);
                sync_block();
            }
    }
    const long long pixel = (static_cast<long long>(image) * height + y) * width + x;
    if (channel < channels) into[pixel * channels + channel] += sum;
}
