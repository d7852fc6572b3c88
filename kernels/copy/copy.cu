// a = b.
#include "elementwise.cuh"

typedef USE_TYPE::Element Element;

struct Parameters {
    Element *a;
    const Element *b;
    i64 length;
};

extern "C" __global__ void __launch_bounds__(THREADS, 4) copy(const __grid_constant__ Parameters p)
{
    const Element *const from[] = {p.b};
    stream<8>(p.a, from, p.length, [](const Element(&numbers)[1]) { return numbers[0]; });
}
