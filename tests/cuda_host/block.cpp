// See block.h. Compiled once for all kernels.
#include "block.h"

namespace host {

std::vector<Block> blocks;
std::vector<std::pair<uintptr_t, uintptr_t>> operands;
Gate cluster_gate;

static void prepare(Block &block, size_t nbytes, unsigned int threads)
{
    block = Block();
    block.arena.assign(nbytes + GUARD + 1024, POISON);
    block.memory = block.arena.data() + (1024 - reinterpret_cast<uintptr_t>(block.arena.data()) % 1024) % 1024;
    block.nbytes = nbytes;
    block.writings.assign(nbytes / VECTOR_BYTES + 1, Writing());
    block.written = 0;
    block.spare = 0;
    block.warps.resize((threads + LANES - 1) / LANES);
    block.warpgroups.resize((threads + 127) / 128);
    block.copies.resize(threads);
    for (Warpgroup &each : block.warpgroups) each.registers = ALL_REGISTERS / threads / 8 * 8;
}

static void check_guard(const Block &block)
{
    for (size_t i = 0; i < GUARD; ++i)
        if (block.memory[block.nbytes + i] != POISON) return fail("written behind the shared memory");
}

unsigned char *shared(uint32_t address, size_t nbytes, Block &block)
{
    static unsigned char nowhere[1 << 18];
    const size_t unit = nbytes & -nbytes, in_block = address & ((1 << BLOCK_BIT) - 1);
    const size_t place = in_block - static_cast<size_t>(FIRST_ADDRESS);
    if (place % (unit < 16 ? unit : 16) || place > block.nbytes || place + nbytes > block.nbytes) {
        fail("shared memory at " + std::to_string(address) + ", " + std::to_string(nbytes) + " bytes of " +
             std::to_string(block.nbytes));
        return nowhere;
    }
    return block.memory + place;
}

unsigned char *shared(uint32_t address, size_t nbytes)
{
    if (address >> BLOCK_BIT != current->rank) fail("an address of another block");
    return shared(address, nbytes, own_block());
}

void note_writing(const unsigned char *place, size_t nbytes)
{
    Block &block = own_block();
    const size_t first = (place - block.memory) / VECTOR_BYTES;
    for (size_t vector = first; vector <= first + (nbytes - 1) / VECTOR_BYTES; ++vector) {
        if (vector < block.writings.size()) block.writings[vector] = {current->number, ++block.written};
    }
}

bool ended(const Block &block)
{
    for (const Fibre &fibre : fibres)
        if (&blocks[fibre.rank] == &block && !fibre.ended) return false;
    return true;
}

bool readable(const void *source, size_t nbytes)
{
    const uintptr_t first = reinterpret_cast<uintptr_t>(source);
    for (const auto &[begin, end] : operands)
        if (first >= begin && first + nbytes <= end) return true;
    return operands.empty();
}

uint32_t (*exchange(const uint32_t *words, int count))[8]
{
    Warp &warp = own_block().warps[current->number / LANES];
    const unsigned int lane = current->number % LANES, parity = warp.exchanges[lane]++ & 1;
    for (int i = 0; i < count; ++i) warp.words[parity][lane][i] = words[i];
    meet(warp.gate, LANES, "its warp");
    return warp.words[parity];
}

static void run_cluster(Index grid, Index first, unsigned int threads, unsigned int cluster, size_t nbytes)
{
    blocks.resize(cluster);
    fibres.resize(static_cast<size_t>(threads) * cluster);
    cluster_gate = Gate();
    for (unsigned int rank = 0; rank < cluster; ++rank) {
        prepare(blocks[rank], nbytes, threads);
        for (unsigned int thread = 0; thread < threads; ++thread) {
            Fibre &fibre = fibres[static_cast<size_t>(rank) * threads + thread];
            prepare(fibre, stack_of(static_cast<size_t>(rank) * threads + thread));
            fibre.number = thread;
            fibre.rank = rank;
            fibre.thread = {thread, 0, 0};
            fibre.block = {first.x + rank, first.y, first.z};
        }
    }
    run_all();
    for (const Block &block : blocks) check_guard(block);
}

const char *launch(Index grid, unsigned int threads, unsigned int cluster, size_t nbytes, int order,
                   const std::function<void()> &kernel)
{
    schedule = static_cast<Schedule>(order);
    work = kernel;
    gridDim = grid;
    blockDim = {threads, 1, 1};
    failure.clear();
    under_way.clear();
    for (unsigned int z = 0; z < grid.z; ++z)
        for (unsigned int y = 0; y < grid.y; ++y)
            for (unsigned int x = 0; x < grid.x && failure.empty(); x += cluster)
                run_cluster(grid, {x, y, z}, threads, cluster, nbytes);
    return failure.c_str();
}

}  // namespace host
