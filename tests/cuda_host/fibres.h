// The threads of a block, or of a cluster of blocks, as fibres of one processor that take turns where they wait. What a
// kernel computes must not depend on whose turn it is, so there are several orders; one that makes a difference is a
// race.
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

// A warp goes on until all of its lanes wait. Then comes: the next one; or always the first one that can go on, or the
// last one. Asynchronous copies land when nobody can go on any more, the newest first; at once; or as late, the oldest
// first.
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

extern Schedule schedule;
extern std::vector<Fibre> fibres;
extern Fibre *current;
extern std::function<void()> work;
extern std::deque<std::function<void()>> under_way;  // copies of which nobody knows when they land
extern std::string failure;

void fail(const std::string &why);

// Come back when it is ready, after others have had their turns.
void wait_until(bool (*ready)(const void *, unsigned int), const void *what, unsigned int value, const char *why);

void prepare(Fibre &fibre, char *stack);
char *stack_of(size_t number);

// Run all fibres to their ends.
void run_all();

// Everybody of a number of threads meets there; used again and again.
struct Gate {
    unsigned int arrived = 0, generation = 0;
};

void meet(Gate &gate, unsigned int count, const char *why);

}  // namespace host
