// Shared state of the threads of a block: its memory, its warps' exchanges and its barriers.
#pragma once
#include "fibres.h"

namespace host {

enum { GUARD = 4096, VECTOR_BYTES = 16, ALL_REGISTERS = 65536 };
// Of shared memory, as on Hopper: the bits above BLOCK_BIT are the block's number in the cluster.
enum { FIRST_ADDRESS = 1024, BLOCK_BIT = 24 };
const unsigned char POISON = 0xff;  // NaN in every type of floating point

struct Warp {
    Gate gate;
    uint32_t words[2][LANES][8];  // the lanes' words of this exchange and of the previous one
    unsigned int exchanges[LANES] = {};
};

// Products that warpgroups have begun, thread by thread and group by group.
struct Warpgroup {
    std::vector<std::vector<std::function<void()>>> groups;  // those committed
    std::vector<std::function<void()>> open;
    unsigned int committed[128] = {}, done = 0;
    unsigned int registers;  // of a thread
    Gate gate;
};

struct Copies {  // of a thread
    std::vector<std::function<void()>> open;
    std::deque<std::vector<std::function<void()>>> groups;
    unsigned int published = 0;  // the last writing that it made visible to the copy engine and tensor cores
};

struct Writing {
    unsigned int thread = 0, number = 0;
};

struct Block {
    std::vector<unsigned char> arena;
    unsigned char *memory;
    size_t nbytes;
    std::vector<Writing> writings;      // the last one of each vector
    unsigned int written;               // the number of the last one
    unsigned int spare;                 // registers that warpgroups have given up
    Gate gate;
    std::vector<Warp> warps;
    std::vector<Warpgroup> warpgroups;
    std::vector<Copies> copies;
};

extern std::vector<Block> blocks;  // of a cluster
extern std::vector<std::pair<uintptr_t, uintptr_t>> operands;  // where copies may read; anywhere if there are none
extern Gate cluster_gate;

inline Block &own_block() { return blocks[current->rank]; }

// A place in the shared memory of the own block, or the same place of another one of the cluster.
unsigned char *shared(uint32_t address, size_t nbytes, Block &block);
unsigned char *shared(uint32_t address, size_t nbytes);

// Record that the running thread has written there.
void note_writing(const unsigned char *place, size_t nbytes);

bool ended(const Block &block);
bool readable(const void *source, size_t nbytes);

// All lanes of the warp show up to eight words; returns those of all.
uint32_t (*exchange(const uint32_t *words, int count))[8];

// Run a kernel; returns an empty text, or the error.
const char *launch(Index grid, unsigned int threads, unsigned int cluster, size_t nbytes, int order,
                   const std::function<void()> &kernel);

}  // namespace host
