// Types of products: operand, sum and result.
#pragma once
#include "ptx.cuh"

// A type defines `stored`, the conversion of a sum to a result, `store` for several, and `taken`, the reverse.
template <class Number> struct AsSummed {
    typedef Number Element;
    typedef Number Sum;
    typedef Number Result;
    DEVICE Number stored(Number sum) { return sum; }
    DEVICE Number taken(Number result) { return result; }
    template <int COUNT> DEVICE void store(Number (&results)[COUNT], const Number (&sums)[COUNT])
    {
        UNROLL
        for (int i = 0; i < COUNT; ++i) results[i] = sums[i];
    }
};

struct Fp64 : AsSummed<double> {};
struct Fp32 : AsSummed<float> {};
struct Tf32 : AsSummed<float> {};
struct Int8 : AsSummed<int> {
    typedef signed char Element;
};

template <class Derived> struct OfTwoBytes {
    typedef u16 Element;
    typedef float Sum;
    typedef u16 Result;
    template <int COUNT> DEVICE void store(u16 (&results)[COUNT], const float (&sums)[COUNT])
    {
        UNROLL
        for (int i = 0; i < COUNT; i += 2) {
            const u32 pair = Derived::pair(sums[i], sums[i + 1]);
            memcpy(results + i, &pair, sizeof(pair));
        }
    }
};

struct Bf16 : OfTwoBytes<Bf16> {
    DEVICE u16 stored(float sum) { return to_bf16(sum); }
    DEVICE u32 pair(float first, float second) { return to_bf16_pair(first, second); }
    DEVICE float taken(u16 result) { return from_bf16(result); }
};

struct Fp16 : OfTwoBytes<Fp16> {
    DEVICE u16 stored(float sum) { return to_fp16(sum); }
    DEVICE u32 pair(float first, float second) { return to_fp16_pair(first, second); }
    DEVICE float taken(u16 result) { return from_fp16(result); }
};

template <class A, class B> struct SAME {
    enum { YES = 0 };
};
template <class A> struct SAME<A, A> {
    enum { YES = 1 };
};

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) Vector {
    T values[COUNT];
};

// Division by an invariant, by multiplication instead of about forty instructions. For numbers below 2^31.
struct Divisor {
    u32 divisor, factor, shift;  // the quotient is multiply_high(number, factor) >> shift; factor 0 if the divisor is 1
};

DEVICE int quotient(int number, const Divisor &by)
{
    return by.factor ? static_cast<int>(multiply_high(number, by.factor) >> by.shift) : number;
}
