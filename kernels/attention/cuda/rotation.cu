// Rotary positions: pairs of features i, i + features / 2 of each row are rotated by the angles of its place (Su et
// al., RoFormer, 2021, section 3.4.2, with pairs half a row apart). A thread rotates four neighbouring pairs at a time,
// in fp32, and rounds once.
// Grid: x heads of all samples, y tiles of places, z arrays.
#include "tiles.cuh"

typedef Vector<float, 4> Four;

struct Rotation {
    Heads from[2], to[2];          // queries and keys; an array may be rotated in place
    const float *cosines, *sines;  // [places][features / 2]
    int heads, places, half;       // half of the features
    float direction;               // 1, or -1 for backwards
};

DEVICE Element *row_of(const Heads &array, const Rotation &p, int place)
{
    return array.first + blockIdx.x / p.heads * array.sample + blockIdx.x % p.heads * array.head + place * array.place;
}

DEVICE Four angles(const float *numbers) { return *reinterpret_cast<const Four *>(numbers); }

DEVICE Four taken(const Element *numbers)
{
    const Vector<Element, 4> stored = *reinterpret_cast<const Vector<Element, 4> *>(numbers);
    Four found;
    UNROLL
    for (int i = 0; i < 4; ++i) found.values[i] = Type::taken(stored.values[i]);
    return found;
}

DEVICE void store(Element *to, const Four &numbers)
{
    Vector<Element, 4> made;
    Type::store(made.values, numbers.values);
    *reinterpret_cast<Vector<Element, 4> *>(to) = made;
}

extern "C" __global__ void __launch_bounds__(THREADS) rotate(const __grid_constant__ Rotation p)
{
    for (int k = threadIdx.x; k < SIDE * p.half / 4; k += THREADS) {
        const int place = blockIdx.y * SIDE + k / (p.half / 4), at = k % (p.half / 4) * 4;
        if (place >= p.places) return;
        const Element *from = row_of(p.from[blockIdx.z], p, place) + at;
        Element *to = row_of(p.to[blockIdx.z], p, place) + at;
        const i64 angle = static_cast<i64>(place) * p.half + at;
        const Four a = taken(from), b = taken(from + p.half);
        const Four cosine = angles(p.cosines + angle), sine = angles(p.sines + angle);
        Four first, second;
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const float turned = p.direction * sine.values[i];
            first.values[i] = a.values[i] * cosine.values[i] - b.values[i] * turned;
            second.values[i] = b.values[i] * cosine.values[i] + a.values[i] * turned;
        }
        store(to, first);
        store(to + p.half, second);
    }
}
