// Products of tiles by a producer, a warpgroup that only brings, and two consumers, warpgroups that only multiply. Stages of
// shared memory go round between them: a barrier says that one is full, another that it is empty. A block computes task
// after task, and brings the next one's first stages while the last one's result is stored.
#pragma once
#include "order.cuh"
#include "output.cuh"
#include "wgmma.cuh"

enum { WARPGROUP = 128, CONSUMERS = 2, BLOCK = WARPGROUP * (1 + CONSUMERS) };

// Where in the ring of stages somebody is, and in which round: a barrier's phases alternate.
template <int STAGES> struct Ring {
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

template <int NBYTES_A, int NBYTES_B, int STAGES_> struct Stages {
    enum { STAGES = STAGES_, STAGE = NBYTES_A + NBYTES_B, NBYTES = STAGES * STAGE, BARRIERS = 16 * STAGES + 8 * CONSUMERS };
    const u32 memory, barriers;

    METHOD u32 a(int stage) const { return memory + stage * STAGE; }
    METHOD u32 b(int stage) const { return memory + stage * STAGE + NBYTES_A; }
    METHOD u32 full(int stage) const { return barriers + 16 * stage; }
    METHOD u32 empty(int stage) const { return barriers + 16 * stage + 8; }

    METHOD u32 turn(int consumer) const { return barriers + 16 * STAGES + 8 * consumer; }

    METHOD void begin(u32 filling, u32 emptying) const
    {
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) begin_barrier(turn(consumer), 1);
        for (int stage = 0; stage < STAGES; ++stage) {
            begin_barrier(full(stage), filling);
            begin_barrier(empty(stage), emptying);
        }
        publish_barriers();
    }
};

// A consumer's products of `lines` stages. A stage is given back when its products are done, one stage later; `begun` is
// called when all products have begun.
template <class Engine, class Stages, class Release, class Begun>
WORD void consume(Engine &engine, const Stages &stages, Ring<Stages::STAGES> &ring, int lines, const Release &release,
                  const Begun &begun)
{
    int before = 0;
    engine.clear();
    engine.fix();
    for (int line = 0; line < lines; ++line) {
        wait_for_phase(stages.full(ring.stage), ring.parity);
        engine.multiply(stages.a(ring.stage), stages.b(ring.stage));
        wait_for_products<1>();
        if (line > 0) release(stages.empty(before));
        before = ring.stage;
        ring.step();
    }
    begun();
    wait_for_products<0>();
    engine.fix();
    if (lines > 0) release(stages.empty(before));
}
