// The bodies of the instructions of kernels/cuda/ptx.cuh on a host. Each has its effect in PTX, as late as PTX allows
// or at once, by the schedule; unwritten memory is NaN.
#pragma once
#include <cmath>

#include "block.h"

#define DEVICE static inline
#define METHOD inline
#define UNROLL
#define NO_UNROLL
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

DEVICE u8 *shared_memory() { return host::own_block().memory; }
DEVICE u32 shared_address(const void *place)
{
    const auto from_first = static_cast<const u8 *>(place) - host::own_block().memory;
    return static_cast<u32>(from_first) + host::FIRST_ADDRESS + (host::current->rank << host::BLOCK_BIT);
}

// Copies complete when they are waited for, or at once.
template <int BYTES> DEVICE void copy_async(u32 target, const void *source, bool valid)
{
    u8 *place = host::shared(target, BYTES);
    if (reinterpret_cast<uintptr_t>(source) % BYTES)
        host::fail("a copy of " + std::to_string(BYTES) + " bytes from between");
    if (valid && !host::readable(source, BYTES)) host::fail("a copy from outside of the operands");
    const auto copy = [=] {
        valid ? memcpy(place, source, BYTES) : memset(place, 0, BYTES);
        host::note_writing(place, BYTES);
    };
    if (host::schedule == host::ASCENDING)
        copy();
    else
        host::own_block().copies[host::current->number].open.push_back(copy);
}

DEVICE void commit_copies()
{
    host::Copies &own = host::own_block().copies[host::current->number];
    own.groups.push_back(std::move(own.open));
    own.open.clear();
}

template <int LEFT> DEVICE void wait_for_copies()
{
    auto &groups = host::own_block().copies[host::current->number].groups;
    for (; groups.size() > LEFT; groups.pop_front())
        for (const auto &copy : groups.front()) copy();
}

template <class T> DEVICE T load_shared(u32 address)
{
    T value;
    memcpy(&value, host::shared(address, sizeof(T)), sizeof(T));
    return value;
}

template <class T> DEVICE void store_shared(u32 address, const T &value)
{
    u8 *place = host::shared(address, sizeof(T));
    memcpy(place, &value, sizeof(T));
    host::note_writing(place, sizeof(T));
}

template <class T> DEVICE const T *whole(const T *place)
{
    static_assert(sizeof(T) == 16, "four words");
    if (reinterpret_cast<uintptr_t>(place) % 16) host::fail("16 bytes of memory from between");
    return place;
}
template <class T> DEVICE T load_streamed(const T *place)
{
    T value;
    memcpy(&value, whole(place), 16);
    return value;
}
template <class T> DEVICE void store_streamed(T *place, const T &value)
{
    whole(place);
    memcpy(place, &value, 16);
}

DEVICE void ldmatrix(u32 (&value)[4], u32 address)
{
    const auto shown = host::exchange(&address, 1);
    const int lane = host::current->number % host::LANES;
    for (int i = 0; i < 4; ++i) memcpy(&value[i], host::shared(shown[8 * i + lane / 4][0], 16) + lane % 4 * 4, 4);
}

DEVICE void ldmatrix_transposed(u32 (&value)[4], u32 address)
{
    const auto shown = host::exchange(&address, 1);
    const int lane = host::current->number % host::LANES;
    for (int i = 0; i < 4; ++i) {
        u16 pair[2];
        for (int k = 0; k < 2; ++k)
            memcpy(&pair[k], host::shared(shown[8 * i + lane % 4 * 2 + k][0], 16) + lane / 4 * 2, 2);
        memcpy(&value[i], pair, 4);
    }
}

DEVICE float as_float(u32 bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

DEVICE u32 as_bits(float value)
{
    u32 bits;
    memcpy(&bits, &value, 4);
    return bits;
}

DEVICE float from_bf16(u16 bits) { return as_float(static_cast<u32>(bits) << 16); }

DEVICE u16 to_bf16(float value)
{
    const u32 bits = as_bits(value);
    return value != value ? 0x7fff : static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

DEVICE float from_fp16(u16 bits)
{
    _Float16 value;
    memcpy(&value, &bits, 2);
    return static_cast<float>(value);
}

DEVICE u16 to_fp16(float value)
{
    const _Float16 half = static_cast<_Float16>(value);
    u16 bits;
    memcpy(&bits, &half, 2);
    return bits;
}

DEVICE u32 to_bf16_pair(float first, float second) { return to_bf16(first) | static_cast<u32>(to_bf16(second)) << 16; }
DEVICE u32 to_fp16_pair(float first, float second) { return to_fp16(first) | static_cast<u32>(to_fp16(second)) << 16; }

// Infinity and NaN are preserved.
DEVICE u32 to_tf32(u32 bits) { return ~bits & 0x7f800000 ? (bits + 0x1000) & ~0x1fffu : bits; }

// The value of a number of a type, from its bits.
struct OfBf16 {
    enum { NBYTES = 2 };
    DEVICE double value(const u8 *at)
    {
        u16 bits;
        memcpy(&bits, at, 2);
        return from_bf16(bits);
    }
};
struct OfFp16 {
    enum { NBYTES = 2 };
    DEVICE double value(const u8 *at)
    {
        u16 bits;
        memcpy(&bits, at, 2);
        return from_fp16(bits);
    }
};
struct OfTf32 {
    enum { NBYTES = 4 };
    DEVICE double value(const u8 *at)
    {
        u32 bits;
        memcpy(&bits, at, 4);
        return as_float(bits & ~0x1fffu);  // the lower bits are ignored
    }
};
struct OfInt8 {
    enum { NBYTES = 1 };
    DEVICE double value(const u8 *at) { return static_cast<signed char>(*at); }
};

// Fragments as words: of A row g, g + 8 and both in the second half of the steps, lane 4 g + t having words t of the
// row.
template <class Of, class Sum> DEVICE void multiply_fragments(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    const u32 own[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const auto shown = host::exchange(own, 6);
    const int lane = host::current->number % host::LANES;
    for (int part = 0; part < 4; ++part) {
        const int row = lane / 4, column = lane % 4 * 2 + part % 2;
        double sum = 0;
        for (int half = 0; half < 2; ++half)
            for (int t = 0; t < 4; ++t) {
                const u8 *left = reinterpret_cast<const u8 *>(&shown[4 * row + t][2 * half + part / 2]);
                const u8 *right = reinterpret_cast<const u8 *>(&shown[4 * column + t][4 + half]);
                for (int at = 0; at < 4; at += Of::NBYTES) sum += Of::value(left + at) * Of::value(right + at);
            }
        c[part] = static_cast<Sum>(c[part] + sum);
    }
}

DEVICE void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { multiply_fragments<OfBf16>(c, a, b0, b1); }
DEVICE void mma_fp16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { multiply_fragments<OfFp16>(c, a, b0, b1); }
DEVICE void mma_tf32(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { multiply_fragments<OfTf32>(c, a, b0, b1); }
DEVICE void mma_int8(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { multiply_fragments<OfInt8>(c, a, b0, b1); }

DEVICE u32 shuffle(u32 value, int lane) { return host::exchange(&value, 1)[lane][0]; }
DEVICE float shuffle(float value, int lane) { return as_float(shuffle(as_bits(value), lane)); }
DEVICE float power_of_two(float x) { return x < -126.0f ? 0.0f : exp2f(x); }

DEVICE void mma_fp64(double (&c)[4], const double (&a)[8], const double (&b)[4])
{
    const int lane = host::current->number % host::LANES;
    for (int four = 0; four < 4; ++four) {
        const double own[3] = {a[2 * four], a[2 * four + 1], b[four]};
        u32 words[6];
        memcpy(words, own, sizeof(own));
        const auto shown = host::exchange(words, 6);
        for (int part = 0; part < 4; ++part)
            for (int t = 0; t < 4; ++t) {
                double left, right;
                memcpy(&left, &shown[lane / 4 * 4 + t][part / 2 * 2], 8);
                memcpy(&right, &shown[(lane % 4 * 2 + part % 2) * 4 + t][4], 8);
                c[part] += left * right;
            }
    }
}

DEVICE void pin_register(float &) {}
DEVICE void pin_register(double &) {}
DEVICE void pin_register(int &) {}

DEVICE u32 multiply_high(u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); }
DEVICE void sync_warp()
{
    const u32 nothing = 0;
    host::exchange(&nothing, 1);
}
DEVICE void sync_block() { host::meet(host::own_block().gate, blockDim.x, "its block"); }
DEVICE void __syncthreads() { sync_block(); }
DEVICE void set_bits(u32 *place, u32 bits) { *place |= bits; }
DEVICE int lowest_bit(u32 word) { return __builtin_ctz(word); }

#include "host_ptx_sm90.h"
