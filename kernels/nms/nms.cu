// Non-maximum suppression in two kernels: suppression bit masks of all pairs, then a scan by one block a frame, without
// transfers to the host. `order` sorts boxes by score. Compiled with --fmad=false, so that comparisons equal those of
// __init__.py bit for bit.
#include "ptx.cuh"

#define BITS 64
#define LOWEST -3.402823466e+38f  // of all finite scores

typedef u64 Mask;

DEVICE double positive(double side) { return side > 0.0 ? side : 0.0; }

DEVICE double area(const double *box) { return positive(box[2] - box[0]) * positive(box[3] - box[1]); }

DEVICE bool overlap(const double *a, const double *b, double threshold)
{
    const double bottom = a[2] < b[2] ? a[2] : b[2], top = a[0] > b[0] ? a[0] : b[0];
    const double right = a[3] < b[3] ? a[3] : b[3], left = a[1] > b[1] ? a[1] : b[1];
    const double shared = positive(bottom - top) * positive(right - left);
    return shared > threshold * (area(a) + area(b) - shared);
}

DEVICE void load(const float *boxes, long long index, double *box)
{
    for (int edge = 0; edge < 4; ++edge) box[edge] = boxes[4 * index + edge];
}

// masks[frame][place][word]: bit k is set if the box at `place` suppresses the later one at BITS * word + k. Grid: x
// words, y blocks of BITS places, z frames; a block has BITS threads. Words before that of a place are neither written
// nor read.
extern "C" __global__ void compare(const float *boxes, const int *groups, const long long *order, double threshold,
                                   int count, Mask *masks)
{
    __shared__ double edges[BITS][4];
    __shared__ int group_of[BITS];
    const int words = (count + BITS - 1) / BITS, word = blockIdx.x, place = BITS * blockIdx.y + threadIdx.x;
    if (word < static_cast<int>(blockIdx.y)) return;
    const long long frame = static_cast<long long>(blockIdx.z) * count;
    const int column = BITS * word + threadIdx.x;
    if (column < count) {
        load(boxes, frame + order[frame + column], edges[threadIdx.x]);
        group_of[threadIdx.x] = groups[frame + order[frame + column]];
    }
    sync_block();
    if (place >= count) return;
    double own[4];
    load(boxes, frame + order[frame + place], own);
    const int group = groups[frame + order[frame + place]];
    Mask mask = 0;
    for (int bit = 0; bit < BITS && BITS * word + bit < count; ++bit)
        if (BITS * word + bit > place && group_of[bit] == group && overlap(own, edges[bit], threshold))
            mask |= 1ULL << bit;
    masks[(frame + place) * words + word] = mask;
}

// Kept places of BITS * word and following, among those neither suppressed nor absent; at most `most`.
DEVICE Mask staying(Mask gone, const Mask *own, int most)
{
    Mask stay = 0;
    for (int bit = 0; bit < BITS && most > 0; ++bit)
        if (!(gone >> bit & 1)) {
            stay |= 1ULL << bit;
            gone |= own[bit];
            --most;
        }
    return stay;
}

// found[frame][kept]: indices of kept boxes by descending score, then -1; `scores` are sorted. A block of at least BITS
// threads a frame; its memory holds a word of suppression bits for each BITS boxes.
extern "C" __global__ void scan(const Mask *masks, const float *scores, const long long *order, int count, int kept,
                                int *found)
{
    Mask *gone = reinterpret_cast<Mask *>(shared_memory());
    __shared__ Mask own[BITS];
    __shared__ Mask stay;
    const int words = (count + BITS - 1) / BITS, threads = blockDim.x, thread = threadIdx.x;
    const long long frame = static_cast<long long>(blockIdx.x) * count;
    int *target = found + static_cast<long long>(blockIdx.x) * kept;
    for (int word = thread; word < words; word += threads) {
        gone[word] = 0;
        for (int bit = 0; bit < BITS; ++bit) {
            const int place = BITS * word + bit;
            if (place >= count || !(scores[frame + place] >= LOWEST)) gone[word] |= 1ULL << bit;
        }
    }
    int chosen = 0;
    for (int word = 0; word < words && chosen < kept; ++word) {
        const int first = BITS * word;
        if (thread < BITS && first + thread < count) own[thread] = masks[(frame + first + thread) * words + word];
        sync_block();
        if (thread == 0) stay = staying(gone[word], own, kept - chosen);
        sync_block();
        for (int bit = 0; bit < BITS; ++bit) {
            if (!(stay >> bit & 1)) continue;
            if (thread == 0) target[chosen] = static_cast<int>(order[frame + first + bit]);
            ++chosen;
            for (int later = word + 1 + thread; later < words; later += threads)
                gone[later] |= masks[(frame + first + bit) * words + later];
        }
    }
    for (int rest = chosen + thread; rest < kept; rest += threads) target[rest] = -1;
}
