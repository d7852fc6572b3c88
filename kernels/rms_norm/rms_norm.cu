// RMS norm of rows of fp32 and its gradients. A row has the lanes of one or several warps of a block, and is read from
// memory in vectors of 16 bytes: once, and again from the cache. The gradient of the weights is summed by each block
// over its rows, then over the blocks, in a fixed order.
#include "types.cuh"

enum { THREADS = 128, WARPS = THREADS / 32, WIDTH = 4 };  // numbers of a vector
enum { PARTS = 8, COLUMNS = THREADS / PARTS };  // parts of the blocks' sums, and vectors, of a block that adds them
typedef Vector<float, WIDTH> Piece;

struct Parameters {
    const float *g, *x, *weight;  // `g` is the gradient of y
    const float *other, *beside;  // rows added to x before the norm, and to dx; null if none are
    float *total;                 // x + other
    float *y, *factors;           // a factor, 1 / root mean square, of each row
    float *dx, *partial, *dweight;  // partial: [blocks][features]
    int rows, features, warps, blocks;  // warps of a row; blocks of the gradients
    float eps;
};

DEVICE Piece piece(const float *row, int vector) { return reinterpret_cast<const Piece *>(row)[vector]; }
DEVICE void store(float *row, int vector, const Piece &numbers) { reinterpret_cast<Piece *>(row)[vector] = numbers; }

// The threads of a block that share a row.
struct Lanes {
    const Parameters &p;
    const u32 shared;  // a sum of each warp, twice
    const int count, group, groups, own, vectors;

    METHOD Lanes(const Parameters &p, u32 shared)
        : p(p), shared(shared), count(32 * p.warps), group(threadIdx.x / count), groups(THREADS / count),
          own(threadIdx.x % count), vectors(p.features / WIDTH)
    {
    }

    // The sum over a row of the product of a, b and c, if the row exists; `turn` alternates between calls.
    template <class Term> METHOD float sum(bool there, int turn, const Term &term) const
    {
        float number = 0.0f;
        for (int vector = own; there && vector < vectors; vector += count) number += term(vector);
        for (int apart = 16; apart > 0; apart /= 2) number += shuffle(number, threadIdx.x % 32 ^ apart);
        const u32 cells = shared + turn % 2 * WARPS * sizeof(float);
        if (threadIdx.x % 32 == 0) store_shared(cells + threadIdx.x / 32 * sizeof(float), number);
        sync_block();
        float total = 0.0f;
        for (int warp = group * p.warps; warp < (group + 1) * p.warps; ++warp)
            total += load_shared<float>(cells + warp * sizeof(float));
        return total;
    }
};

// Grid: x, as many blocks as have a row for each group of lanes.
extern "C" __global__ void __launch_bounds__(THREADS) forward(const __grid_constant__ Parameters p)
{
    const Lanes lanes(p, shared_address(shared_memory()));
    const int row = blockIdx.x * lanes.groups + lanes.group;
    const i64 at = static_cast<i64>(row) * p.features;
    const float squares = lanes.sum(row < p.rows, 0, [&](int vector) {
        Piece a = piece(p.x + at, vector);
        if (p.other) {
            const Piece b = piece(p.other + at, vector);
            UNROLL
            for (int i = 0; i < WIDTH; ++i) a.values[i] += b.values[i];
            store(p.total + at, vector, a);
        }
        float sum = 0.0f;
        UNROLL
        for (int i = 0; i < WIDTH; ++i) sum += a.values[i] * a.values[i];
        return sum;
    });
    if (row >= p.rows) return;
    const float factor = 1.0f / sqrtf(squares / p.features + p.eps);
    if (lanes.own == 0) p.factors[row] = factor;
    const float *rows = p.other ? p.total : p.x;
    for (int vector = lanes.own; vector < lanes.vectors; vector += lanes.count) {
        Piece a = piece(rows + at, vector);  // of a sum, what this thread has stored
        const Piece weight = piece(p.weight, vector);
        UNROLL
        for (int i = 0; i < WIDTH; ++i) a.values[i] = a.values[i] * factor * weight.values[i];
        store(p.y + at, vector, a);
    }
}

// The gradients of a row, and of the weights in shared memory, a sum of each feature for each group of lanes.
struct Gradients {
    const Parameters &p;
    const Lanes lanes;
    const u32 sums;

    METHOD Gradients(const Parameters &p, u32 memory)
        : p(p), lanes(p, memory), sums(memory + 2 * WARPS * sizeof(float))
    {
    }

    METHOD u32 cell(int group, int vector) const { return sums + (group * lanes.vectors + vector) * sizeof(Piece); }

    METHOD float weighted_mean(int row, int turn, const float *g, const float *x) const
    {
        return lanes.sum(row < p.rows, turn, [&](int vector) {
            const Piece a = piece(g, vector), b = piece(x, vector), weight = piece(p.weight, vector);
            float sum = 0.0f;
            UNROLL
            for (int i = 0; i < WIDTH; ++i) sum += a.values[i] * b.values[i] * weight.values[i];
            return sum;
        }) / p.features;
    }

    METHOD void add_row(int row, int turn) const
    {
        const i64 at = static_cast<i64>(row) * p.features;
        const float *g = p.g + at, *x = p.x + at;
        const float mean = weighted_mean(row, turn, g, x);
        if (row >= p.rows) return;
        const float factor = p.factors[row], tilt = -mean * factor * factor * factor;
        for (int vector = lanes.own; vector < lanes.vectors; vector += lanes.count) {
            const Piece b = piece(x, vector), weight = piece(p.weight, vector);
            Piece a = piece(g, vector), sum = load_shared<Piece>(cell(lanes.group, vector));
            UNROLL
            for (int i = 0; i < WIDTH; ++i) {
                const float scaled = a.values[i] * factor;
                a.values[i] = scaled * weight.values[i] + b.values[i] * tilt;
                sum.values[i] += scaled * b.values[i];
            }
            if (p.beside) {
                const Piece more = piece(p.beside + at, vector);
                UNROLL
                for (int i = 0; i < WIDTH; ++i) a.values[i] += more.values[i];
            }
            store(p.dx + at, vector, a);
            store_shared(cell(lanes.group, vector), sum);
        }
    }

    METHOD void run() const
    {
        for (int vector = lanes.own; vector < lanes.vectors; vector += lanes.count)
            store_shared(cell(lanes.group, vector), Piece());
        int turn = 0;
        for (int first = blockIdx.x * lanes.groups; first < p.rows; first += gridDim.x * lanes.groups)
            add_row(first + lanes.group, turn++);
        sync_block();
        for (int vector = threadIdx.x; vector < lanes.vectors; vector += THREADS) {
            Piece total = Piece();
            for (int group = 0; group < lanes.groups; ++group) {
                const Piece sum = load_shared<Piece>(cell(group, vector));
                UNROLL
                for (int i = 0; i < WIDTH; ++i) total.values[i] += sum.values[i];
            }
            store(p.partial + static_cast<i64>(blockIdx.x) * p.features, vector, total);
        }
    }
};

// Grid: x blocks, which take turns with the rows.
extern "C" __global__ void __launch_bounds__(THREADS) gradients(const __grid_constant__ Parameters p)
{
    Gradients(p, shared_address(shared_memory())).run();
}

// Gradient of the weights, from the sums of the blocks. Grid: x parts of COLUMNS vectors.
extern "C" __global__ void __launch_bounds__(THREADS) add_blocks(const __grid_constant__ Parameters p)
{
    const u32 sums = shared_address(shared_memory()) + threadIdx.x % COLUMNS * PARTS * sizeof(Piece);
    const int vector = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS, part = threadIdx.x / COLUMNS;
    const bool there = vector < p.features / WIDTH;
    Piece total = Piece();
    for (int block = part; there && block < p.blocks; block += PARTS) {
        const Piece sum = piece(p.partial + static_cast<i64>(block) * p.features, vector);
        UNROLL
        for (int i = 0; i < WIDTH; ++i) total.values[i] += sum.values[i];
    }
    store_shared(sums + part * sizeof(Piece), total);
    sync_block();
    if (part != 0 || !there) return;
    for (int other = 1; other < PARTS; ++other) {
        const Piece sum = load_shared<Piece>(sums + other * sizeof(Piece));
        UNROLL
        for (int i = 0; i < WIDTH; ++i) total.values[i] += sum.values[i];
    }
    store(p.dweight, vector, total);
}
