// How a producer brings both operands of a phase's product for two consumers (warp_specialized.cuh).
#pragma once
#include "tma.cuh"
#include "operands.cuh"

typedef Specialised<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_STAGES, USE_CLUSTER, USE_ALTERNATE, A_LAYOUT, B_LAYOUT> Kernel;
typedef Kernel::Ready Ready;
typedef Registers<88> Own;

// What brings the other operand: boxes, which the first thread asks for, or all threads.
#if USE_BOXES
struct Sent {
#if defined USE_WEIGH
    enum { ROWS = USE_ROWS, LAYOUT = A_LAYOUT };
    static_assert(USE_CLUSTER == 1, "blocks of a cluster would share what is gathered");
#else
    enum { ROWS = USE_COLUMNS, LAYOUT = B_LAYOUT };
#endif
    enum { SHARE = ROWS / USE_CLUSTER };  // blocks of a cluster have the same columns: each brings a part for all
    const Parameters &p;
    const Phase &phase;
    const int share, thread;
    int first;

    METHOD void begin(int row) { first = row + share * SHARE; }
    METHOD void aim(int) {}
    METHOD void settle(u32) const {}

    METHOD void bring(u32 tile, int step, u32 full) const
    {
        if (thread) return;
        arrive_and_expect(full, ROWS * LINE);
#if defined USE_WEIGH
        send(tile, full, blockIdx.y * p.other.columns + first, step);
#elif USE_TURNED
        const Weight weight = weight_at(phase.weights, step);
        send(tile, full, weight.tap + first, blockIdx.y * p.other.lines + weight.filter);
#else
        send(tile, full, blockIdx.y * p.other.lines + first, step);
#endif
    }

    METHOD void send(u32 tile, u32 full, int row, int step) const
    {
        send_boxes<USE_TYPE, LAYOUT, SHARE, USE_CLUSTER>(&p.map, full, tile + share * SHARE * LINE, row, step);
    }
};
#else
struct Sent {
    static_assert(USE_CLUSTER == 1, "each thread copies to its own block");
    Other other;
    METHOD void begin(int row) { other.begin(row); }
    METHOD void aim(int step) { other.aim(step); }
    METHOD void settle(u32) const {}
    METHOD void bring(u32 tile, int step, u32) const { other.bring(tile, step); }
};
#endif

struct Producing {
    const Phase &phase;
    const Ready &ready;
    const int rank;  // of the block in its cluster
    Gathered gathered;
    Sent sent;

#if defined USE_WEIGH
    METHOD u32 of_gathered(int stage) const { return ready.b(stage); }
    METHOD u32 of_sent(int stage) const { return ready.a(stage); }
#else
    METHOD u32 of_gathered(int stage) const { return ready.a(stage); }
    METHOD u32 of_sent(int stage) const { return ready.b(stage); }
#endif
    METHOD int begin(const Task &t)
    {
        const int row = (t.down * CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
#if defined USE_WEIGH
        gathered.begin(column);
        sent.begin(row);
#else
        gathered.begin(row);
        sent.begin(column);
#endif
        return t.part * phase.order.steps_of_part;
    }
    METHOD int lines(const Task &t) const { return lines_of(phase, t); }
    METHOD void aim(int step)
    {
        gathered.aim(step);
        sent.aim(step);
    }
    METHOD void bring(int stage, int step) const
    {
        sent.bring(of_sent(stage), step, ready.full(stage));
        gathered.bring(of_gathered(stage), step);
    }
    METHOD void settle(int stage) const { gathered.settle(of_gathered(stage)); }
};
