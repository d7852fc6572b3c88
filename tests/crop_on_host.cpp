// Runs crop.cu on the host, pixel by pixel: the words of CUDA that it uses, and a loop in place of the grid.
#define __global__
#define __device__
#define __forceinline__ inline
struct Index {
    int x, y, z;
};
static Index blockIdx, blockDim, threadIdx;
#include KERNEL

extern "C" void crop_on_host(const unsigned char *images, const int *boxes, unsigned char *out, int n, int height,
                             int width, int side)
{
    blockDim = {128, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < n; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < side; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x * blockDim.x < side; ++blockIdx.x)
                for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
                    crop(images, boxes, out, height, width, side);
}
