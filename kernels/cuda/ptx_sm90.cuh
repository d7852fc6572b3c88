// Instructions of compute capability 9.0 and later: mbarrier, TMA, clusters; and of sm_90a only: wgmma. Included by
// ptx.cuh.
#pragma once

#if __CUDA_ARCH__ >= 900

DEVICE void init_barrier(u32 barrier, u32 arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Make initialised barriers visible to TMA and to the other blocks of the cluster.
DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }

// Arrive at the barrier at the same offset in another block of the cluster. Here and in `wait_for_phase`, only writes
// of the own block are ordered: blocks share only TMA loads, which barriers track. Ordering memory of the whole cluster
// would make ptxas wait for all outstanding global accesses and invalidate L1.
DEVICE void arrive_remote(u32 barrier, u32 block)
{
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
                 "r"(block)
                 : "memory");
}

// Arrive, and keep the phase open until TMA has written that many bytes.
DEVICE void arrive_and_expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Wait until the phase with this parity has ended.
DEVICE void wait_for_phase(u32 barrier, u32 parity)
{
    u32 ended;
    do {
        asm volatile("{\n.reg .pred ended;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, ended;\n}"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

// Make writes of this thread to shared memory, and writes it has synchronised with, visible to tensor cores and TMA. It
// may wait for all outstanding copies of this thread.
DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void prefetch_tensor_map(const TensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<u64>(map)) : "memory");
}

// TMA load of a box with its corner at (column, row); the barrier counts its bytes.
DEVICE void tma_load(u32 target, const TensorMap *map, u32 barrier, int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(target),
                 "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(column), "r"(row)
                 : "memory");
}

// The same, multicast to all blocks of the cluster whose bit is set; the barrier of each counts its bytes.
DEVICE void tma_load_multicast(u16 blocks, u32 target, const TensorMap *map, u32 barrier, int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
                 "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(column), "r"(row), "h"(blocks)
                 : "memory");
}

DEVICE u32 cluster_rank()
{
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Wait for all threads of the cluster. Orders nothing except `fence_barrier_init`.
DEVICE void sync_cluster() { asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory"); }

#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COUNT> DEVICE void increase_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> DEVICE void decrease_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Wait until at most LEFT groups of products are pending.
template <int LEFT> DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define NAMES_32                                                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                                       \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                      \
             "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_128                                                                                                      \
    NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                      \
             "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                        \
             "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "            \
             "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define EIGHT(l, at)                                                                                                   \
    "+" l(d[at]), "+" l(d[at + 1]), "+" l(d[at + 2]), "+" l(d[at + 3]), "+" l(d[at + 4]), "+" l(d[at + 5]),            \
        "+" l(d[at + 6]), "+" l(d[at + 7])
#define SUMS_32(l, at) EIGHT(l, at), EIGHT(l, at + 8), EIGHT(l, at + 16), EIGHT(l, at + 24)
#define SUMS_64(l, at) SUMS_32(l, at), SUMS_32(l, at + 32)
#define SUMS_128(l, at) SUMS_64(l, at), SUMS_64(l, at + 64)

// D (64 x N) = A (64 x 32 bytes) B (32 bytes x N), or added to D, by a warpgroup, from shared memory through
// descriptors. 16-bit operands may be MN-major.
#define WGMMA(name, shape, text, Sum, l, COUNT, A, B, P, transposes, ...)                                              \
    template <bool A_TRANSPOSED, bool B_TRANSPOSED> DEVICE void name(Sum(&d)[COUNT], u64 a, u64 b, int add)            \
    {                                                                                                                  \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #P ", 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned." shape text " {" NAMES_##COUNT "}, %" #A ", %" #B ", add"          \
                     transposes                                                                                        \
                     ";\n}"                                                                                            \
                     : SUMS_##COUNT(l, 0)                                                                              \
                     : "l"(a), "l"(b), "r"(add) __VA_ARGS__);                                                          \
    }
#define SIGNS_AND_TRANSPOSES , "n"(A_TRANSPOSED ? 1 : 0), "n"(B_TRANSPOSED ? 1 : 0)
#define WGMMA_16(name, k, text)                                                                                        \
    WGMMA(name, "m64n64" k, text, float, "f", 32, 32, 33, 34, ", 1, 1, %35, %36", SIGNS_AND_TRANSPOSES)                \
    WGMMA(name, "m64n128" k, text, float, "f", 64, 64, 65, 66, ", 1, 1, %67, %68", SIGNS_AND_TRANSPOSES)               \
    WGMMA(name, "m64n256" k, text, float, "f", 128, 128, 129, 130, ", 1, 1, %131, %132", SIGNS_AND_TRANSPOSES)
#define WGMMA_ROWS(name, k, text, Sum, l, transposes)                                                                  \
    WGMMA(name, "m64n64" k, text, Sum, l, 32, 32, 33, 34, transposes, )                                                \
    WGMMA(name, "m64n128" k, text, Sum, l, 64, 64, 65, 66, transposes, )                                               \
    WGMMA(name, "m64n256" k, text, Sum, l, 128, 128, 129, 130, transposes, )
WGMMA_16(wgmma_bf16, "k16", ".f32.bf16.bf16")
WGMMA_16(wgmma_fp16, "k16", ".f32.f16.f16")
WGMMA_ROWS(wgmma_tf32, "k8", ".f32.tf32.tf32", float, "f", ", 1, 1")
WGMMA_ROWS(wgmma_int8, "k32", ".s32.s8.s8", int, "r", "")
#undef WGMMA
#undef WGMMA_16
#undef WGMMA_ROWS
#undef SIGNS_AND_TRANSPOSES
#undef EIGHT

#endif
