// PTX instructions of the kernels, each behind a function. host_ptx.h defines the same functions for the host, for
// tests. PTX ISA 8.0 and later, by section: 9.7.8.22 cp.async, 9.7.8.24 cp.async.bulk.tensor, 9.7.12.15 mbarrier,
// 9.7.13 mma.sync and ldmatrix, 9.7.14 wgmma.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// Tensor map of TMA; the driver encodes it, and kernels get it by value.
struct alignas(64) TensorMap {
    u8 opaque[128];
};

#ifdef __CUDACC__

#define DEVICE static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

// Dynamic shared memory of the block; TMA needs it at a multiple of 1024.
DEVICE u8 *shared_memory()
{
    extern __shared__ __align__(1024) u8 memory[];
    return memory;
}

DEVICE u32 shared_address(const void *place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }

// Asynchronous copy of 16, 8 or 4 bytes from global to shared memory; stores zeros and reads nothing if not valid.
template <int BYTES> DEVICE void copy_async(u32 target, const void *source, bool valid)
{
    const u32 read = valid ? BYTES : 0;
#if __CUDA_ARCH__ >= 800
    const u64 place = __cvta_generic_to_global(source);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(place), "r"(read)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(place), "n"(BYTES), "r"(read)
                     : "memory");
#else  // through a register
    for (int word = 0; word < BYTES / 4; ++word) {
        const u32 value = read ? static_cast<const u32 *>(source)[word] : 0;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(target + 4 * word), "r"(value) : "memory");
    }
#endif
}

DEVICE void commit_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait until at most LEFT copy groups of this thread are in flight.
template <int LEFT> DEVICE void wait_for_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

template <class T> DEVICE T load_shared(u32 address)
{
    static_assert(sizeof(T) == 16 || sizeof(T) == 8 || sizeof(T) == 4, "of whole words");
    T value;
    u32 *words = reinterpret_cast<u32 *>(&value);
    if (sizeof(T) == 16)
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address));
    else if (sizeof(T) == 8)
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(address));
    else
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(words[0]) : "r"(address));
    return value;
}

template <class T> DEVICE void store_shared(u32 address, const T &value)
{
    const u32 *words = reinterpret_cast<const u32 *>(&value);
    if (sizeof(T) == 16)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]),
                     "r"(words[2]), "r"(words[3])
                     : "memory");
    else if (sizeof(T) == 8)
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(words[0]), "r"(words[1]) : "memory");
    else if (sizeof(T) == 4)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(words[0]) : "memory");
    else if (sizeof(T) == 2)
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(*reinterpret_cast<const u16 *>(&value)) : "memory");
    else
        asm volatile("st.shared.b8 [%0], %1;" ::"r"(address),
                     "r"(static_cast<u32>(*reinterpret_cast<const u8 *>(&value)))
                     : "memory");
}

// 16 bytes of global memory that are used once; L1 does not keep them.
template <class T> DEVICE T load_streamed(const T *place)
{
    static_assert(sizeof(T) == 16, "four words");
    T value;
    u32 *words = reinterpret_cast<u32 *>(&value);
    asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(__cvta_generic_to_global(place)));
    return value;
}

template <class T> DEVICE void store_streamed(T *place, const T &value)
{
    static_assert(sizeof(T) == 16, "four words");
    const u32 *words = reinterpret_cast<const u32 *>(&value);
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(place)), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// ldmatrix: four 8 x 8 matrices of 16-bit numbers. Lane l gives the address of row l % 8 of matrix l / 8 and receives
// of each matrix two neighbours of row l / 4, columns 2 (l % 4) and the next; transposed: of column l / 4, these rows.
DEVICE void ldmatrix(u32 (&value)[4], u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(address)
                 : "memory");
}

DEVICE void ldmatrix_transposed(u32 (&value)[4], u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(address)
                 : "memory");
}

#define MMA(name, text, letter, Sum)                                                                                   \
    DEVICE void name(Sum(&c)[4], const u32(&a)[4], u32 b0, u32 b1)                                                     \
    {                                                                                                                  \
        asm volatile("mma.sync.aligned." text " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
                     : "+" letter(c[0]), "+" letter(c[1]), "+" letter(c[2]), "+" letter(c[3])                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
    }
// C (16 x 8) += A (16 x 32 bytes) B (32 bytes x 8), by a warp.
#if __CUDA_ARCH__ >= 800
MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", "f", float)
MMA(mma_fp16, "m16n8k16.row.col.f32.f16.f16.f32", "f", float)
MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", "f", float)
MMA(mma_int8, "m16n8k32.row.col.s32.s8.s8.s32", "r", int)
#endif
#undef MMA

// C (16 x 8) += A (16 x 16) B (16 x 8) in fp64, by a warp: lane l holds of A, in steps l % 4, 4 + l % 4 and so on, row
// l / 4 and row l / 4 + 8; of B the same steps of column l / 4; of C two neighbours of either row, columns 2 (l % 4)
// and the next.
#if __CUDA_ARCH__ >= 900
DEVICE void mma_fp64(double (&c)[4], const double (&a)[8], const double (&b)[4])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
                   "d"(b[1]), "d"(b[2]), "d"(b[3]));
}
#elif __CUDA_ARCH__ >= 800
DEVICE void mma_fp64(double (&c)[4], const double (&a)[8], const double (&b)[4])
{
    UNROLL
    for (int part = 0; part < 8; ++part)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(c[part % 2 * 2]), "+d"(c[part % 2 * 2 + 1])
                     : "d"(a[part]), "d"(b[part / 2]));
}
#endif

// Keep a value in its register: the compiler cannot move its uses across this point and knows nothing of it after.
DEVICE void pin_register(float &sum) { asm volatile("" : "+f"(sum)::"memory"); }
DEVICE void pin_register(double &sum) { asm volatile("" : "+d"(sum)::"memory"); }
DEVICE void pin_register(int &sum) { asm volatile("" : "+r"(sum)::"memory"); }

// Nearest tf32 number, halves away from zero.
DEVICE u32 to_tf32(u32 bits)
{
    u32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}

DEVICE float from_bf16(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }

DEVICE float from_fp16(u16 bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Two numbers, the first in the lower half.
DEVICE u32 to_bf16_pair(float first, float second)
{
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

DEVICE u32 to_fp16_pair(float first, float second)
{
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

DEVICE u16 to_bf16(float value) { return static_cast<u16>(to_bf16_pair(value, 0.0f)); }

DEVICE u16 to_fp16(float value)
{
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Value of another lane; all lanes of the warp must call it.
DEVICE u32 shuffle(u32 value, int lane) { return __shfl_sync(0xffffffff, value, lane); }
DEVICE float shuffle(float value, int lane) { return __shfl_sync(0xffffffff, value, lane); }

// 2^x as exp2f computes it, 2 ulp at most (CUDA C++ Programming Guide), but 0 below 2^-126.
DEVICE float power_of_two(float x) { asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)); return x; }

DEVICE u32 multiply_high(u32 a, u32 b) { return __umulhi(a, b); }

// Atomically set bits of a word; index of the lowest set bit.
DEVICE void set_bits(u32 *place, u32 bits) { atomicOr(place, bits); }
DEVICE int lowest_bit(u32 word) { return __ffs(static_cast<int>(word)) - 1; }

DEVICE void sync_warp() { __syncwarp(); }
DEVICE void sync_block() { __syncthreads(); }

#include "ptx_sm90.cuh"

#else
#include "host_ptx.h"
#endif
