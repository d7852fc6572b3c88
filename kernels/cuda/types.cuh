// What products are made of: types of the operands, of the sums and of the results.
#pragma once
#include "words.cuh"

struct Fp64 {
    typedef double Element;
    typedef double Sum;
    typedef double Result;
    WORD double stored(double sum) { return sum; }
    WORD double taken(double result) { return result; }
};

struct Fp32 {
    typedef float Element;
    typedef float Sum;
    typedef float Result;
    WORD float stored(float sum) { return sum; }
    WORD float taken(float result) { return result; }
};

struct Tf32 : Fp32 {};

struct Bf16 {
    typedef u16 Element;
    typedef float Sum;
    typedef u16 Result;
    WORD u16 stored(float sum) { return to_bf16(sum); }
    WORD float taken(u16 result) { return from_bf16(result); }
};

struct Fp16 {
    typedef u16 Element;
    typedef float Sum;
    typedef u16 Result;
    WORD u16 stored(float sum) { return to_fp16(sum); }
    WORD float taken(u16 result) { return from_fp16(result); }
};

struct Int8 {
    typedef signed char Element;
    typedef int Sum;
    typedef int Result;
    WORD int stored(int sum) { return sum; }
    WORD int taken(int result) { return result; }
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

// A quotient and its remainder by a product, where division would take forty instructions. For numbers below 2^31.
struct Divisor {
    u32 divisor, factor, shift;  // the quotient is high_product(number, factor) >> shift; factor 0 if the divisor is 1
};

WORD int quotient(int number, const Divisor &by)
{
    return by.factor ? static_cast<int>(high_product(number, by.factor) >> by.shift) : number;
}
