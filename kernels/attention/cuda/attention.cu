// Causal attention: forward pass and gradients, fp32 by ordinary multiply-adds, bf16 and fp16 by tensor cores. Grid: x
// heads of all samples, y tiles of places, z chunks of features.
#include "forward.cuh"
#include "gradients.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 3) forward(const __grid_constant__ Parameters p)
{
    Forward(p, shared_address(shared_memory())).run();
}

extern "C" __global__ void __launch_bounds__(THREADS) means(const __grid_constant__ Parameters p) { compute_means(p); }

extern "C" __global__ void __launch_bounds__(THREADS, 2) of_keys(const __grid_constant__ Parameters p)
{
    Gradients<true>(p, shared_address(shared_memory())).run();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) of_queries(const __grid_constant__ Parameters p)
{
    Gradients<false>(p, shared_address(shared_memory())).run();
}
