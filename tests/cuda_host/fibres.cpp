// See fibres.h. Compiled once for all kernels.
#include "fibres.h"

#include <sys/mman.h>

#include <map>

Index blockIdx, threadIdx, blockDim, gridDim;

namespace host {

Schedule schedule;
std::vector<Fibre> fibres;
Fibre *current;
std::function<void()> work;
std::deque<std::function<void()>> under_way;
std::string failure;
static std::vector<char *> stacks;
static jmp_buf scheduler;

static bool always(const void *, unsigned int) { return true; }

void fail(const std::string &why)
{
    if (failure.empty()) failure = why;
}

void wait_until(bool (*ready)(const void *, unsigned int), const void *what, unsigned int value, const char *why)
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

void prepare(Fibre &fibre, char *stack)
{
    getcontext(&fibre.start);
    fibre.start.uc_stack.ss_sp = stack;
    fibre.start.uc_stack.ss_size = STACK;
    fibre.start.uc_link = nullptr;
    fibre.begun = fibre.ended = false;
    fibre.ready = always;
    fibre.why = "its start";
    makecontext(&fibre.start, run_fibre, 0);
}

char *stack_of(size_t number)
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
        for (size_t step = 0; step < LANES && failure.empty(); ++step) {
            const size_t lane = LANES * warp + (schedule == DESCENDING ? LANES - 1 - step : step);
            if (lane >= fibres.size() || fibres[lane].ended) continue;
            if (!fibres[lane].ready(fibres[lane].what, fibres[lane].value)) continue;
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
    std::string text = "all wait forever:";
    for (const auto &[why, threads] : waiting)
        text += " " + std::to_string(threads.size()) + " threads for " + why + ", the first thread " +
                std::to_string(threads[0]->number) + " of block " + std::to_string(threads[0]->block.x) + ";";
    fail(text);
}

void run_all()
{
    const size_t warps = (fibres.size() + LANES - 1) / LANES;
    size_t next = 0;
    for (;;) {
        bool ran = false;
        for (size_t step = 0; step < warps && !ran && failure.empty(); ++step) {
            const size_t descending = warps - 1 - step, around = (next + step) % warps;
            const size_t warp = schedule == ASCENDING ? step : schedule == DESCENDING ? descending : around;
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

static bool opened(const void *gate, unsigned int generation)
{
    return static_cast<const Gate *>(gate)->generation != generation;
}

void meet(Gate &gate, unsigned int count, const char *why)
{
    const unsigned int generation = gate.generation;
    if (++gate.arrived == count) {
        gate.arrived = 0;
        ++gate.generation;
    }
    wait_until(opened, &gate, generation, why);
}

}  // namespace host
