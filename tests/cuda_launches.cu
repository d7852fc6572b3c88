// Kernels for tests of compilation and launches; not part of the program.

struct alignas(64) Map {
    unsigned char bytes[128];
};

struct Scale {
    float factor;
    long long first;
};

// y[i] = factor * x[i] + y[i], from `first` on.
extern "C" __global__ void add_scaled(const float *x, float *y, const Scale scale, int n)
{
    const long long i = scale.first + static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scale.factor * x[i] + y[i];
}

// Reverses n words by way of dynamic shared memory, with one block.
extern "C" __global__ void reverse(int *words, int n)
{
    extern __shared__ int kept[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) kept[i] = words[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) words[i] = kept[n - 1 - i];
}

#ifdef TENSOR_MAPS

// The contents of shared memory after the box at (x, y) was copied there, byte for byte.
extern "C" __global__ void copy_box(const __grid_constant__ Map map, unsigned char *out, int nbytes, int x, int y)
{
    extern __shared__ __align__(1024) unsigned char box[];
    const unsigned int into = static_cast<unsigned int>(__cvta_generic_to_shared(box)), barrier = into + nbytes;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(nbytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(into), "l"(&map), "r"(x), "r"(y), "r"(barrier)
                     : "memory");
    }
    __syncthreads();
    unsigned int done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    for (int i = threadIdx.x; i < nbytes; i += blockDim.x) out[i] = box[i];
}

#endif
