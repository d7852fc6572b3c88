// Runs nms.cu on the host, with the grids of cupy_gpu.py.
#include "cuda_on_host.h"
#include KERNEL

Mask gone[1 << 12];

extern "C" void nms_on_host(const float *boxes, const float *ordered, const int *groups, const long long *order,
                            double threshold, int frames, int count, int kept, int descending, Mask *masks, int *found)
{
    const unsigned int words = (count + BITS - 1) / BITS, number = frames;
    launch({words, words, number}, BITS, descending, [=] { compare(boxes, groups, order, threshold, count, masks); });
    launch({number, 1, 1}, 2 * BITS, descending, [=] { walk(masks, ordered, order, count, kept, found); });
}
