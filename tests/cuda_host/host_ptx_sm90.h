// On a host: barriers in shared memory, the copy engine, clusters and registers of warpgroups. See host_ptx.h.
#pragma once

// A barrier in this host's format, in the eight bytes of a real one.
struct Barrier {
    u16 expected, pending;
    int bytes : 31;  // still expected; negative if they arrive before they are expected
    u32 phase : 1;
};

DEVICE Barrier &barrier_of(u32 address, host::Block &block)
{
    return *reinterpret_cast<Barrier *>(host::shared(address, 8, block));
}
DEVICE Barrier &barrier_of(u32 address) { return *reinterpret_cast<Barrier *>(host::shared(address, 8)); }

DEVICE void end_phase(Barrier &barrier)
{
    if (barrier.pending || barrier.bytes) return;
    barrier.pending = barrier.expected;
    barrier.phase ^= 1;
}

DEVICE void arrive_at_barrier(Barrier &barrier)
{
    if (!barrier.pending) return host::fail("more arrivals at a barrier than it began with");
    --barrier.pending;
    end_phase(barrier);
}

DEVICE void init_barrier(u32 barrier, u32 arrivals)
{
    barrier_of(barrier) = {static_cast<u16>(arrivals), static_cast<u16>(arrivals), 0, 0};
}
DEVICE void fence_barrier_init() {}
DEVICE void fence_async_proxy()
{
    host::Block &block = host::own_block();
    block.copies[host::current->number].published = block.written;
}
DEVICE void arrive(u32 barrier) { arrive_at_barrier(barrier_of(barrier)); }
DEVICE void arrive_remote(u32 barrier, u32 block)
{
    if (host::ended(host::blocks[block])) host::fail("an arrival at a barrier of a block that has ended");
    arrive_at_barrier(barrier_of(barrier, host::blocks[block]));
}

DEVICE void arrive_and_expect(u32 barrier, u32 bytes)
{
    barrier_of(barrier).bytes += static_cast<int>(bytes);
    arrive(barrier);
}

DEVICE bool phase_ended(const void *barrier, unsigned int parity)
{
    return static_cast<const Barrier *>(barrier)->phase != parity;
}
DEVICE void wait_for_phase(u32 barrier, u32 parity)
{
    host::wait_until(phase_ended, &barrier_of(barrier), parity, "a phase");
}

// This host's description of a tensor, in place of the driver's format; tests/cuda_on_host.py fills it in.
struct HostMap {
    u64 address;
    u32 rank, element_bytes;
    u64 dims[5], strides[4];
    u32 box[5], swizzle, rounded;  // rounded: to tf32, while copied
};

DEVICE void prefetch_tensor_map(const TensorMap *) {}

// The elements of a box in sequence, those outside of the tensor 0; the place of each 16 bytes is given by the swizzle
// of 128 bytes.
DEVICE void bring_box(u8 *memory, u32 target, const HostMap &map, int column, int row)
{
    memory -= target;
    const u8 *first = reinterpret_cast<const u8 *>(map.address);
    const u32 wide = map.box[0] * map.element_bytes;
    for (u32 y = 0; y < map.box[1]; ++y)
        for (u32 x = 0; x < map.box[0]; ++x) {
            const i64 at = column + static_cast<i64>(x), line = row + static_cast<i64>(y);
            const bool across = at >= 0 && at < static_cast<i64>(map.dims[0]);
            const bool inside = across && line >= 0 && line < static_cast<i64>(map.dims[1]);
            u32 place = target + y * wide + x * map.element_bytes;
            if (map.swizzle == 128) place ^= place >> 3 & 0x70;
            if (inside)
                memcpy(memory + place, first + line * map.strides[0] + at * map.element_bytes, map.element_bytes);
            if (inside && map.rounded) {
                u32 bits;
                memcpy(&bits, memory + place, 4);
                bits = to_tf32(bits);
                memcpy(memory + place, &bits, 4);
            }
            if (!inside)
                memset(memory + place, 0, map.element_bytes);
        }
}

DEVICE void tma_load_multicast(u16 blocks, u32 target, const TensorMap *opaque, u32 barrier, int column, int row)
{
    HostMap map;
    memcpy(&map, opaque, sizeof(map));
    const u32 nbytes = map.box[0] * map.box[1] * map.element_bytes;
    if (target % 1024) host::fail("a box not at a multiple of 1024 bytes");
    for (u32 rank = 0; rank < host::blocks.size(); ++rank) {
        if (!(blocks >> rank & 1)) continue;
        host::Block &block = host::blocks[rank];
        u8 *place = host::shared(target, nbytes, block);
        const auto copy = [=, &block] {
            if (host::ended(block)) host::fail("a box for a block that has ended");
            bring_box(place, target, map, column, row);
            barrier_of(barrier, block).bytes -= static_cast<int>(nbytes);
            end_phase(barrier_of(barrier, block));
        };
        host::schedule == host::ASCENDING ? copy() : host::under_way.push_back(copy);
    }
}

DEVICE void tma_load(u32 target, const TensorMap *map, u32 barrier, int column, int row)
{
    tma_load_multicast(static_cast<u16>(1 << host::current->rank), target, map, barrier, column, row);
}

DEVICE u32 cluster_rank() { return host::current->rank; }
DEVICE void sync_cluster()
{
    host::meet(host::cluster_gate, static_cast<u32>(host::fibres.size()), "its cluster");
}

DEVICE host::Warpgroup &own_warpgroup() { return host::own_block().warpgroups[host::current->number / 128]; }

// All threads of the warpgroup set their registers; they wait until enough are available.
DEVICE void set_registers(u32 count)
{
    host::Warpgroup &own = own_warpgroup();
    const u32 had = own.registers;
    if (count % 8 || count < 24 || count > 256) host::fail("registers are 24 to 256, in eights");
    const auto enough = [](const void *spare, u32 wanted) { return *static_cast<const u32 *>(spare) >= wanted; };
    u32 &spare = host::own_block().spare;
    if (count > had) host::wait_until(enough, &spare, count - had, "registers");
    spare += had - count;
    host::meet(own.gate, 128, "its warpgroup");
    own.registers = count;
}

template <int COUNT> DEVICE void increase_registers()
{
    if (COUNT < own_warpgroup().registers) host::fail("fewer registers are taken than there are");
    set_registers(COUNT);
}

template <int COUNT> DEVICE void decrease_registers()
{
    if (COUNT > own_warpgroup().registers) host::fail("more registers are kept than there are");
    set_registers(COUNT);
}

#include "host_wgmma.h"
