#include "types.cuh"

// Lines of `from` elements copied to lines of `to`, what is more filled with zeros: channels made whole vectors, and back.
struct Parameters {
    const void *source;
    void *target;
    i64 lines;
    int from, to;
};

extern "C" __global__ void __launch_bounds__(256) repack(const __grid_constant__ Parameters p)
{
    typedef USE_ELEMENT Element;
    const i64 total = p.lines * p.to;
    for (i64 index = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; index < total;
         index += static_cast<i64>(gridDim.x) * blockDim.x) {
        const i64 line = index / p.to;
        const int column = static_cast<int>(index - line * p.to);
        const Element *source = static_cast<const Element *>(p.source) + line * p.from + column;
        static_cast<Element *>(p.target)[index] = column < p.from ? *source : Element(0);
    }
}
