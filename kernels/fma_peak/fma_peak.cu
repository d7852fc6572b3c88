// FMA peak: multiply-adds on sums that stay in registers, by ordinary instructions, by tensor cores of a warp
// (mma.sync) or of a warpgroup (wgmma). A and B vary from step to step like random data, yet all sums are equal: A
// consists of two rows, eight times each in alternation, B of one column, and both rows give the same sum with it.
#include "types.cuh"
#ifdef USE_WGMMA
#include "wgmma.cuh"
#elif defined USE_MMA
#include "mma.cuh"
#endif

enum { THREADS = 256, MOST_WORDS = 64 };

struct Parameters {
    void *sums;  // [threads of all blocks][COUNT]
    double factor, term;
    u32 rows[2][MOST_WORDS], column[MOST_WORDS];  // of A and of B, for the steps of an iteration
    int iterations;
};

typedef USE_TYPE::Sum Sum;
enum { COUNT = 512 / sizeof(Sum) };  // sums of a thread: half of all registers

// Hide the initial values from the compiler, which could merge equal sums.
DEVICE void begin(Sum (&sums)[COUNT])
{
    UNROLL
    for (int i = 0; i < COUNT; ++i) {
        sums[i] = 0;
        pin_register(sums[i]);
    }
}

#ifdef USE_WGMMA

// Write a tile to shared memory: eight even rows, eight odd rows, and so on.
DEVICE void lay_out(u32 tile, int rows, const u32 *even, const u32 *odd)
{
    for (int index = threadIdx.x; index < rows * VECTORS; index += THREADS) {
        const u32 *words = (index / VECTORS / 8 % 2 ? odd : even) + 4 * (index % VECTORS);
        const Vector<u32, 4> vector = {{words[0], words[1], words[2], words[3]}};
        store_shared(tile + swizzled_offset(index / VECTORS, index % VECTORS), vector);
    }
}

// Two warpgroups, each issuing products of 64 x 256 back to back.
DEVICE void repeat(Sum (&sums)[COUNT], const Parameters &p)
{
    enum { ROWS = 64, COLUMNS = 2 * COUNT };
    typedef Descriptor<USE_TYPE, BY_ROWS> Tile;
    const u32 a = shared_address(shared_memory()), b = a + ROWS * LINE;
    lay_out(a, ROWS, p.rows[0], p.rows[1]);
    lay_out(b, COLUMNS, p.column, p.column);
    fence_async_proxy();
    sync_block();
    for (int iteration = 0; iteration < p.iterations; ++iteration) {
        wgmma_fence();
        UNROLL
        for (int part = 0; part < 4; ++part)
            MultiplyByWarpgroup<USE_TYPE>::add<false, false>(sums, Tile::of(a + Tile::offset(0, part)),
                                                             Tile::of(b + Tile::offset(0, part)));
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    UNROLL
    for (int i = 0; i < COUNT; ++i) pin_register(sums[i]);
}

#elif defined USE_MMA

// Operands of a lane for a tensor-core product.
template <class Type> struct Numbers {
    enum { PARTS = 4 };
    u32 a[4], b[2];

    METHOD void load(const Parameters &p, int part, int lane)
    {
        UNROLL
        for (int half = 0; half < 2; ++half) {
            const int word = 8 * part + 4 * half + lane % 4;
            a[2 * half] = p.rows[0][word];
            a[2 * half + 1] = p.rows[1][word];
            b[half] = p.column[word];
        }
    }
    METHOD void add(Sum (&sums)[4]) const { Multiply<Type>::add(sums, a, b[0], b[1]); }
};

template <> struct Numbers<Fp64> {
    enum { PARTS = 2 };
    double a[8], b[4];

    METHOD void load(const Parameters &p, int part, int lane)
    {
        UNROLL
        for (int four = 0; four < 4; ++four) {
            const int number = 16 * part + 4 * four + lane % 4;
            a[2 * four] = reinterpret_cast<const double *>(p.rows[0])[number];
            a[2 * four + 1] = reinterpret_cast<const double *>(p.rows[1])[number];
            b[four] = reinterpret_cast<const double *>(p.column)[number];
        }
    }
    METHOD void add(double (&sums)[4]) const { mma_fp64(sums, a, b); }
};

// Each tile of 16 x 8 uses all parts of the steps of an iteration; neighbouring tiles start at different parts.
DEVICE void repeat(Sum (&sums)[COUNT], const Parameters &p)
{
    enum { PARTS = Numbers<USE_TYPE>::PARTS };
    Numbers<USE_TYPE> numbers[PARTS];
    UNROLL
    for (int part = 0; part < PARTS; ++part) numbers[part].load(p, part, threadIdx.x % 32);
    for (int iteration = 0; iteration < p.iterations; ++iteration)
        UNROLL
        for (int part = 0; part < PARTS; ++part)
            UNROLL
            for (int tile = 0; tile < COUNT / 4; ++tile)
                numbers[(tile + part) % PARTS].add(reinterpret_cast<Sum(&)[4]>(sums[4 * tile]));
}

#else

DEVICE void repeat(Sum (&sums)[COUNT], const Parameters &p)
{
    enum { STEPS = 4 };  // of an iteration
    const Sum factor = static_cast<Sum>(p.factor), term = static_cast<Sum>(p.term);
    for (int iteration = 0; iteration < p.iterations; ++iteration)
        UNROLL
        for (int step = 0; step < STEPS; ++step)
            UNROLL
            for (int i = 0; i < COUNT; ++i) sums[i] = sums[i] * factor + term;
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) fma_peak(const __grid_constant__ Parameters p)
{
    Sum sums[COUNT];
    begin(sums);
    repeat(sums, p);
    Sum *own = static_cast<Sum *>(p.sums) + static_cast<i64>(blockIdx.x * THREADS + threadIdx.x) * COUNT;
    UNROLL
    for (int i = 0; i < COUNT; ++i) own[i] = sums[i];
}
