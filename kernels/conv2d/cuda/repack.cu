#include "types.cuh"

// Padding of channels: lines of `narrow` elements copied to lines of `wide` elements, which are whole vectors of 16
// bytes, padded with zeros; and back.
struct Parameters {
    const void *source;
    void *target;
    Divisor of_line;   // vectors of a wide line
    int vectors;       // of all wide lines
    int narrow, wide;
};

typedef USE_ELEMENT Element;
enum { COUNT = 16 / sizeof(Element) };
typedef Vector<Element, COUNT> Elements;

// Call `use` for each vector of the wide lines: its offset, its offset in the narrow lines, and how many elements are
// left there.
template <class Use> DEVICE void for_vectors(const Parameters &p, const Use &use)
{
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x, apart = gridDim.x * blockDim.x;
    for (u32 index = first; index < static_cast<u32>(p.vectors); index += apart) {
        const int line = quotient(static_cast<int>(index), p.of_line);
        const int column = (static_cast<int>(index) - line * static_cast<int>(p.of_line.divisor)) * COUNT;
        use(static_cast<i64>(index) * COUNT, static_cast<i64>(line) * p.narrow + column, p.narrow - column);
    }
}

extern "C" __global__ void __launch_bounds__(256) widen(const __grid_constant__ Parameters p)
{
    for_vectors(p, [&](i64 wide, i64 narrow, int left) {
        const Element *source = static_cast<const Element *>(p.source) + narrow;
        Elements found = {};
        UNROLL
        for (int i = 0; i < COUNT; ++i)
            if (i < left) found.values[i] = source[i];
        *reinterpret_cast<Elements *>(static_cast<Element *>(p.target) + wide) = found;
    });
}

extern "C" __global__ void __launch_bounds__(256) narrow(const __grid_constant__ Parameters p)
{
    for_vectors(p, [&](i64 wide, i64 narrow, int left) {
        const Elements found = *reinterpret_cast<const Elements *>(static_cast<const Element *>(p.source) + wide);
        Element *target = static_cast<Element *>(p.target) + narrow;
        UNROLL
        for (int i = 0; i < COUNT; ++i)
            if (i < left) target[i] = found.values[i];
    });
}
