// Producer warpgroup: loads both operands of a phase for two consumers (warp_specialized.cuh).
#pragma once
#include "tma.cuh"
#include "operands.cuh"

typedef WarpSpecialized<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_STAGES, USE_CLUSTER, USE_PING_PONG, A_LAYOUT, B_LAYOUT>
    Kernel;
typedef Kernel::Buffers Buffers;
typedef Registers<88> RegisterSplit;

// Loads the other operand: by TMA, issued by the first thread, or by all threads.
#if USE_TMA
struct OtherLoader {
#if defined USE_WEIGHT_GRADIENT
    enum { ROWS = USE_ROWS, LAYOUT = A_LAYOUT };
    static_assert(USE_CLUSTER == 1, "blocks of a cluster would share what is gathered");
#else
    enum { ROWS = USE_COLUMNS, LAYOUT = B_LAYOUT };
#endif
    enum { SHARE = ROWS / USE_CLUSTER };  // blocks of a cluster have the same columns; each loads a part for all
    const Parameters &p;
    const Phase &phase;
    const int share, thread;
    int first;

    METHOD void begin(int row) { first = row + share * SHARE; }
    METHOD void prepare(int) {}
    METHOD void finish_load(u32) const {}

    METHOD void load(u32 tile, int step, u32 full) const
    {
        if (thread) return;
        arrive_and_expect(full, ROWS * LINE);
#if defined USE_WEIGHT_GRADIENT
        send(tile, full, blockIdx.y * p.other.columns + first, step);
#elif USE_TRANSPOSED
        const Weight weight = weight_at(phase.weights, step);
        send(tile, full, weight.tap + first, blockIdx.y * p.other.lines + weight.filter);
#else
        send(tile, full, blockIdx.y * p.other.lines + first, step);
#endif
    }

    METHOD void send(u32 tile, u32 full, int row, int step) const
    {
        tma_load_tile<USE_TYPE, LAYOUT, SHARE, USE_CLUSTER>(&p.map, full, tile + share * SHARE * LINE, row, step);
    }
};
#else
struct OtherLoader {
    static_assert(USE_CLUSTER == 1, "each thread copies to its own block");
    Other other;
    METHOD void begin(int row) { other.begin(row); }
    METHOD void prepare(int step) { other.prepare(step); }
    METHOD void finish_load(u32) const {}
    METHOD void load(u32 tile, int step, u32) const { other.load(tile, step); }
};
#endif

struct ProducerWork {
    const Phase &phase;
    const Buffers &buffers;
    const int rank;  // of the block in its cluster
    Gathered gathered;
    OtherLoader other_loader;

#if defined USE_WEIGHT_GRADIENT
    METHOD u32 of_gathered(int stage) const { return buffers.b(stage); }
    METHOD u32 of_other(int stage) const { return buffers.a(stage); }
#else
    METHOD u32 of_gathered(int stage) const { return buffers.a(stage); }
    METHOD u32 of_other(int stage) const { return buffers.b(stage); }
#endif
    METHOD int begin(const Task &t)
    {
        const int row = (t.down * CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
#if defined USE_WEIGHT_GRADIENT
        gathered.begin(column);
        other_loader.begin(row);
#else
        gathered.begin(row);
        other_loader.begin(column);
#endif
        return t.part * phase.raster.steps_of_part;
    }
    METHOD int lines(const Task &t) const { return lines_of(phase, t); }
    METHOD void prepare(int step)
    {
        gathered.prepare(step);
        other_loader.prepare(step);
    }
    METHOD void load(int stage, int step) const
    {
        other_loader.load(of_other(stage), step, buffers.full(stage));
        gathered.load(of_gathered(stage), step);
    }
    METHOD void finish_load(int stage) const { gathered.finish_load(of_gathered(stage)); }
};
