// Runs roi_align.cu on the host, with the grids of cupy_gpu.py but fewer threads.
#include "cuda_on_host.h"
#include KERNEL

Tap taps[1 << 10];
float weights[1 << 10];

static const unsigned int THREADS = 2 * GROUP;

extern "C" void pool_on_host(const float *features, const float *regions, const int *level, int own, double scale,
                             int images, int number, int height, int width, int channels, int side, int samples,
                             int descending, float *out)
{
    const Index grid = {static_cast<unsigned int>(number), static_cast<unsigned int>(images), 1};
    launch(grid, THREADS, descending,
           [=] { pool(features, regions, level, own, scale, height, width, channels, side, samples, out); });
}

extern "C" void spread_on_host(const float *gradient, const float *regions, const int *level, int own, double scale,
                               int images, int number, int height, int width, int channels, int side, int samples,
                               int descending, float *into)
{
    const unsigned int parts = (channels + THREADS - 1) / THREADS;
    const Index grid = {static_cast<unsigned int>(width), static_cast<unsigned int>(height), images * parts};
    launch(grid, THREADS, descending,
           [=] { spread(gradient, regions, level, own, scale, number, height, width, channels, side, samples, into); });
}
