// The threads of a block, or of a cluster of blocks, as fibres of one processor that alternate where they wait. The
// results of a kernel must not depend on the order of its threads, so there are several orders; a difference is a race.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

struct Index {
    unsigned int x, y, z;
};
extern Index blockIdx, threadIdx, blockDim, gridDim;

namespace host {

// A warp runs until all of its lanes wait. Then follows: the next one; or always the first one that can run, or the
// last one. Asynchronous copies complete when no fibre can run any more, the newest first; at once; or when no fibre
// can run, the oldest first.
enum Schedule { ROUND_ROBIN, ASCENDING, DESCENDING };
enum { LANES = 32, STACK = 1 << 17 };

struct Fibre {
    ucontext_t start;
    jmp_buf place;
    bool begun, ended;
    Index thread, block;
    unsigned int number, rank;         // in its block; of its block in the cluster
    bool (*ready)(const void *, unsigned int);  // the awaited condition, and its arguments
    const void *what;
    unsigned int value;
    const char *why;
};

extern Schedule schedule;
extern std::vector<Fibre> fibres;
extern Fibre *current;
extern std::function<void()> work;
extern std::deque<std::function<void()>> under_way;  // copies that may complete at any time
extern std::string failure;

void fail(const std::string &why);

// Return when it is ready, after other fibres have run.
void wait_until(bool (*ready)(const void *, unsigned int), const void *what, unsigned int value, const char *why);

void prepare(Fibre &fibre, char *stack);
char *stack_of(size_t number);

// Run all fibres to their ends.
void run_all();

// A barrier of a number of threads; used repeatedly.
struct Gate {
    unsigned int arrived = 0, generation = 0;
};

void meet(Gate &gate, unsigned int count, const char *why);

}  // namespace host
