// Multistage pipeline: all threads load and multiply, and STAGES - 1 stages are in flight while one is multiplied.
#pragma once
#include "shared_tile.cuh"

template <class Engine, class A, class B, int STAGES> struct Pipeline {
    enum { STAGE = A::NBYTES + B::NBYTES, NBYTES = STAGES * STAGE, STEPS = Width<typename Engine::Type>::ELEMENTS };
    static_assert(STAGES > 1, "one is used while others are filled");

    const u32 memory;
    A &a;
    B &b;

    METHOD void load(int stage, int step) const
    {
        a.prepare(step);
        b.prepare(step);
        a.load(memory + stage * STAGE, step);
        b.load(memory + stage * STAGE + A::NBYTES, step);
    }

    // Add the products of `lines` lines of steps from step `first` on; afterwards no copy is in flight.
    METHOD void run(Engine &engine, int first, int lines) const
    {
        UNROLL
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            if (stage < lines) load(stage, first + stage * STEPS);
            commit_copies();
        }
        for (int line = 0; line < lines; ++line) {
            wait_for_copies<STAGES - 2>();
            sync_block();  // all copied their part of this line, and no thread uses the line before
            const int next = line + STAGES - 1;
            if (next < lines) load(next % STAGES, first + next * STEPS);
            commit_copies();
            const u32 stage = memory + line % STAGES * STAGE;
            engine.multiply(stage, stage + A::NBYTES);
        }
        wait_for_copies<0>();
        sync_block();
    }
};
