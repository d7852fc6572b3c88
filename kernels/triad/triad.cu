// a = b + s c.
#include "elementwise.cuh"

typedef USE_TYPE::Element Element;

struct Parameters {
    Element *a;
    const Element *b, *c;
    double s;
    i64 length;
};

extern "C" __global__ void __launch_bounds__(THREADS, 4) triad(const __grid_constant__ Parameters p)
{
    const Element *const from[] = {p.b, p.c};
    const Element s = static_cast<Element>(p.s);
    stream<4>(p.a, from, p.length, [&](const Element(&numbers)[2]) { return numbers[0] + s * numbers[1]; });
}
