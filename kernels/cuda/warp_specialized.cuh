// Warp-specialised tile products: one producer warpgroup loads, two consumer warpgroups multiply. Stages of shared
// memory form a ring with a full and an empty barrier each. Blocks are persistent: the producer loads the first stages
// of the next task while the result of the last one is stored.
#pragma once
#include "rasterization.cuh"
#include "epilogue.cuh"
#include "wgmma.cuh"

enum { WARPGROUP = 128, CONSUMERS = 2, BLOCK = WARPGROUP * (1 + CONSUMERS) };

// Registers of a thread: each starts with AT_FIRST; consumers share what the producer releases. A request beyond that
// would wait forever. Multiples of eight.
enum { AT_FIRST = 65536 / BLOCK / 8 * 8 };
template <int KEPT> struct Registers {
    enum { PRODUCER = KEPT, CONSUMER = ((1 + CONSUMERS) * AT_FIRST - KEPT) / CONSUMERS / 8 * 8 };
    static_assert(PRODUCER % 8 == 0 && PRODUCER + CONSUMERS * CONSUMER <= (1 + CONSUMERS) * AT_FIRST,
                  "there are no more");
};

// Warpgroup index, made uniform over a warp for the compiler.
DEVICE int warpgroup_index() { return shuffle(threadIdx.x / WARPGROUP, 0); }

// Position in the ring of stages and parity of the barrier phase.
template <int STAGES> struct StageRing {
    int stage;
    u32 parity;
    METHOD void step()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    METHOD void skip(int count)
    {
        stage += count;
        parity ^= stage / STAGES & 1;
        stage %= STAGES;
    }
};

template <int NBYTES_A, int NBYTES_B, int STAGES_> struct StageBuffers {
    enum { STAGES = STAGES_, STAGE = NBYTES_A + NBYTES_B, NBYTES = STAGES * STAGE };
    enum { BARRIERS = 16 * STAGES + 8 * CONSUMERS };
    const u32 memory, barriers;

    METHOD u32 a(int stage) const { return memory + stage * STAGE; }
    METHOD u32 b(int stage) const { return memory + stage * STAGE + NBYTES_A; }
    METHOD u32 full(int stage) const { return barriers + 16 * stage; }
    METHOD u32 empty(int stage) const { return barriers + 16 * stage + 8; }

    METHOD u32 order_barrier(int consumer) const { return barriers + 16 * STAGES + 8 * consumer; }
    METHOD u32 epilogue_buffers() const { return barriers + BARRIERS; }

    METHOD void begin(u32 filling, u32 emptying) const
    {
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) init_barrier(order_barrier(consumer), WARPGROUP / 32);
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(full(stage), filling);
            init_barrier(empty(stage), emptying);
        }
        fence_barrier_init();
    }
};

// A warp-specialised kernel: tile of a block; PING_PONG: consumers alternate on tiles instead of sharing one; CLUSTER:
// blocks with the same columns, which share the loads of B.
template <class Type, int ROWS_, int COLUMNS_, int STAGES, int CLUSTER_, bool PING_PONG_, int A_LAYOUT, int B_LAYOUT>
struct WarpSpecialized {
    enum { ROWS = ROWS_, COLUMNS = COLUMNS_, CLUSTER = CLUSTER_, PING_PONG = PING_PONG_ };
    enum { CONSUMER_ROWS = PING_PONG ? ROWS : ROWS / CONSUMERS, SHARING = PING_PONG ? 1 : CONSUMERS };
    typedef Wgmma<Type, CONSUMER_ROWS, COLUMNS, A_LAYOUT, B_LAYOUT> Engine;
    typedef StageBuffers<ROWS * LINE, COLUMNS * LINE, STAGES> Buffers;
    typedef StageRing<STAGES> RingPosition;

    // Products of `lines` stages by a consumer. COPIED: threads copy to the stages, instead of TMA. A stage is released
    // when its products are done, one stage later; `on_issued` is called when all products are issued.
    template <bool COPIED, class Release, class Begun>
    DEVICE void consume(Engine &engine, const Buffers &buffers, RingPosition &ring, int lines, const Release &release,
                      const Begun &on_issued)
    {
        int before = 0;
        engine.clear();
        engine.pin();
        for (int line = 0; line < lines; ++line) {
            wait_for_phase(buffers.full(ring.stage), ring.parity);
            if (COPIED) fence_async_proxy();  // here, since the producer always has copies under way
            engine.multiply(buffers.a(ring.stage), buffers.b(ring.stage));
            wgmma_wait<1>();
            if (line > 0) release(buffers.empty(before));
            before = ring.stage;
            ring.step();
        }
        on_issued();
        wgmma_wait<0>();
        engine.pin();
        if (lines > 0) release(buffers.empty(before));
    }

    // All tasks of a consumer. `lines_of`: lines of a task; `store` gets the engine, the task and the warp's buffer.
    template <bool COPIED, class LinesOf, class Store>
    DEVICE void multiply(const Rasterization &raster, const Buffers &buffers, int consumer, int thread,
                         const LinesOf &lines_of, const Store &store)
    {
        Engine engine(PING_PONG ? 0 : consumer * CONSUMER_ROWS, thread);
        RingPosition ring = {0, 0};
        const u32 buffer = buffers.epilogue_buffers() + (consumer * 4 + thread / 32) * Strip<Engine>::NBYTES;
        const auto release = [&](u32 empty) {
            if (CLUSTER > 1 && thread < CLUSTER) arrive_remote(empty, thread);
            if (CLUSTER == 1 && thread == 0) arrive(empty);
        };
        // Ping-pong: a consumer starts when the other one has issued all its products, because a barrier phase must not
        // be waited for before the previous one has ended. Every warp arrives; a late warp would miss a phase.
        const auto on_issued = [&] {
            if (PING_PONG && thread % 32 == 0) arrive(buffers.order_barrier(1 - consumer));
        };
        int iteration = 0;
        for (int number = blockIdx.x / CLUSTER; number < tasks(raster); number += gridDim.x / CLUSTER, ++iteration) {
            const Task t = task(raster, number);
            const int lines = lines_of(t);
            if (PING_PONG && iteration % CONSUMERS != consumer) {
                ring.skip(lines);
                continue;
            }
            if (PING_PONG) wait_for_phase(buffers.order_barrier(consumer), (iteration / CONSUMERS + 1 - consumer) & 1);
            consume<COPIED>(engine, buffers, ring, lines, release, on_issued);
            store(engine, t, buffer);
        }
    }

    // A producer whose threads all copy. `work` begins a task and returns its first step, prepares a step while its
    // stage may still be in use, loads it, and finishes loads that have landed; those are handed over BEHIND stages
    // later.
    template <class Work> DEVICE void produce(const Rasterization &raster, const Buffers &buffers, Work &work)
    {
        enum { BEHIND = STAGES - 2 };
        static_assert(BEHIND > 0, "a consumer gives a stage back one stage late");
        RingPosition ring = {0, 1}, landed = {0, 0};
        const auto hand_over = [&] {
            work.finish_load(landed.stage);
            arrive(buffers.full(landed.stage));
            landed.step();
        };
        int asked = 0;
        for (int number = blockIdx.x / CLUSTER; number < tasks(raster); number += gridDim.x / CLUSTER) {
            const Task t = task(raster, number);
            int step = work.begin(t);
            const int lines = work.lines(t);
            for (int line = 0; line < lines; ++line, ring.step(), step += Width<Type>::ELEMENTS) {
                work.prepare(step);
                wait_for_phase(buffers.empty(ring.stage), ring.parity);
                work.load(ring.stage, step);
                commit_copies();
                if (++asked <= BEHIND) continue;
                wait_for_copies<BEHIND>();
                hand_over();
            }
        }
        wait_for_copies<0>();
        for (int left = asked < BEHIND ? asked : BEHIND; left > 0; --left) hand_over();
        // A block must not exit before the other blocks of its cluster have released its loads: they arrive at its
        // barriers.
        for (int stage = 0; CLUSTER > 1 && stage < STAGES; ++stage, ring.step())
            wait_for_phase(buffers.empty(ring.stage), ring.parity);
    }
};
