// The threads of a block, or of a cluster of blocks, as fibres of one processor that take turns where they wait. What a
// kernel computes must not depend on whose turn it is, so there are several orders; one that makes a difference is a race.
#pragma once
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

struct Index {
    unsigned int x, y, z;
};
static Index blockIdx, threadIdx, blockDim, gridDim;

namespace host {

// A warp goes on until all of its lanes wait. Then comes: the next one; or always the first one that can go on, or the
// last one. Asynchronous copies land when nobody can go on any more, the newest first; at once; or as late, the oldest first.
enum Schedule { ROUND_ROBIN, ASCENDING, DESCENDING };
enum { LANES = 32, STACK = 1 << 17 };

struct Fibre {
    ucontext_t start;
    jmp_buf place;
    bool begun, ended;
    Index thread, block;
    unsigned int number, rank;         // in its block; of its block in the cluster
    bool (*ready)(const void *, unsigned int);  // what it waits for, and with what arguments
    const void *what;
    unsigned int value;
    const char *why;
};

static Schedule schedule;
static std::vector<Fibre> fibres;
static std::vector<char *> stacks;
static Fibre *current;
static jmp_buf scheduler;
static std::function<void()> work;
static std::deque<std::function<void()>> under_way;  // copies of which nobody knows when they land
static std::string failure;

static bool always(const void *, unsigned int) { return true; }

static void fail(const std::string &why)
{
    if (failure.empty()) failure = why;
}

// Come back when it is ready, after others have had their turns.
static void wait_until(bool (*ready)(const void *, unsigned int), const void *what, unsigned int value, const char *why)
{
    if (ready(what, value) && schedule != ROUND_ROBIN) return;
    current->ready = ready;
    current->what = what;
    current->value = value;
    current->why = why;
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

static void run_fibre()
{
    work();
    current->ended = true;
    _longjmp(scheduler, 1);
}

static void resume(Fibre &fibre)
{
    current = &fibre;
    threadIdx = fibre.thread;
    blockIdx = fibre.block;
    if (_setjmp(scheduler)) return;
    if (fibre.begun) _longjmp(fibre.place, 1);
    fibre.begun = true;
    setcontext(&fibre.start);
}

static void prepare(Fibre &fibre, char *stack)
{
    getcontext(&fibre.start);
    fibre.start.uc_stack.ss_sp = stack;
    fibre.start.uc_stack.ss_size = STACK;
    fibre.start.uc_link = nullptr;
    fibre.begun = fibre.ended = false;
    fibre.ready = always;
    fibre.why = "its turn";
    makecontext(&fibre.start, run_fibre, 0);
}

static char *stack_of(size_t number)
{
    while (stacks.size() <= number)
        stacks.push_back(static_cast<char *>(
            mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)));
    return stacks[number];
}

// Let the lanes of a warp run until each waits or has ended; whether any could.
static bool run_warp(size_t warp)
{
    bool ran = false;
    for (bool some = true; some && failure.empty();) {
        some = false;
        for (size_t turn = 0; turn < LANES && failure.empty(); ++turn) {
            const size_t lane = LANES * warp + (schedule == DESCENDING ? LANES - 1 - turn : turn);
            if (lane >= fibres.size() || fibres[lane].ended || !fibres[lane].ready(fibres[lane].what, fibres[lane].value))
                continue;
            resume(fibres[lane]);
            some = ran = true;
        }
        if (schedule == ROUND_ROBIN) break;
    }
    return ran;
}

static void land_one()
{
    const bool newest = schedule == ROUND_ROBIN;
    std::function<void()> copy = newest ? under_way.back() : under_way.front();
    newest ? under_way.pop_back() : under_way.pop_front();
    copy();
}

static void report_deadlock()
{
    std::map<std::string, std::vector<const Fibre *>> waiting;
    for (const Fibre &fibre : fibres)
        if (!fibre.ended) waiting[fibre.why].push_back(&fibre);
    std::string text = "all wait for ever:";
    for (const auto &[why, who] : waiting)
        text += " " + std::to_string(who.size()) + " threads for " + why + ", the first thread " +
                std::to_string(who[0]->number) + " of block " + std::to_string(who[0]->block.x) + ";";
    fail(text);
}

// Run all fibres to their ends.
static void run_all()
{
    const size_t warps = (fibres.size() + LANES - 1) / LANES;
    size_t next = 0;
    for (;;) {
        bool ran = false;
        for (size_t turn = 0; turn < warps && !ran && failure.empty(); ++turn) {
            const size_t warp = schedule == ASCENDING ? turn : schedule == DESCENDING ? warps - 1 - turn : (next + turn) % warps;
            ran = run_warp(warp);
            if (ran) next = warp + 1;
        }
        if (!failure.empty()) return;
        if (ran) continue;
        bool ended = true;
        for (const Fibre &fibre : fibres) ended = ended && fibre.ended;
        if (!under_way.empty())
            land_one();
        else if (ended)
            return;
        else
            return report_deadlock();
    }
}

// Everybody of a number of threads meets there; used again and again.
struct Gate {
    unsigned int arrived = 0, generation = 0;
};

static bool opened(const void *gate, unsigned int generation)
{
    return static_cast<const Gate *>(gate)->generation != generation;
}

static void meet(Gate &gate, unsigned int count, const char *why)
{
    const unsigned int generation = gate.generation;
    if (++gate.arrived == count) {
        gate.arrived = 0;
        ++gate.generation;
    }
    wait_until(opened, &gate, generation, why);
}

}  // namespace host
