// On a host: barriers in shared memory, the copy engine, clusters and products by warpgroups. See host_words.h.
#pragma once

// A barrier as this host keeps it in the eight bytes that it has.
struct Barrier {
    u16 expected, pending;
    int bytes : 31;  // that are still to come; fewer than none while they come before they are expected
    u32 phase : 1;
};

WORD Barrier &barrier_of(u32 address, host::Block &block) { return *reinterpret_cast<Barrier *>(host::shared(address, 8, block)); }
WORD Barrier &barrier_of(u32 address) { return *reinterpret_cast<Barrier *>(host::shared(address, 8)); }

WORD void end_phase(Barrier &barrier)
{
    if (barrier.pending || barrier.bytes) return;
    barrier.pending = barrier.expected;
    barrier.phase ^= 1;
}

WORD void arrive_at_barrier(Barrier &barrier)
{
    if (!barrier.pending) return host::fail("more arrivals at a barrier than it began with");
    --barrier.pending;
    end_phase(barrier);
}

WORD void begin_barrier(u32 barrier, u32 arrivals)
{
    barrier_of(barrier) = {static_cast<u16>(arrivals), static_cast<u16>(arrivals), 0, 0};
}
WORD void publish_barriers() {}
WORD void publish_writes() {}
WORD void arrive(u32 barrier) { arrive_at_barrier(barrier_of(barrier)); }
WORD void arrive_at(u32 barrier, u32 block)
{
    if (host::ended(host::blocks[block])) host::fail("an arrival at a barrier of a block that has ended");
    arrive_at_barrier(barrier_of(barrier, host::blocks[block]));
}

WORD void arrive_and_expect(u32 barrier, u32 bytes)
{
    barrier_of(barrier).bytes += static_cast<int>(bytes);
    arrive(barrier);
}

WORD bool phase_ended(const void *barrier, unsigned int parity)
{
    return static_cast<const Barrier *>(barrier)->phase != parity;
}
WORD void wait_for_phase(u32 barrier, u32 parity) { host::wait_until(phase_ended, &barrier_of(barrier), parity, "a phase"); }

// How this host describes a tensor where a driver has a form of its own; tests/on_host.py fills it in.
struct HostMap {
    u64 address;
    u32 rank, element_bytes;
    u64 dims[5], strides[4];
    u32 box[5], swizzle, rounded;  // rounded: to tf32, on the way
};

WORD void fetch_map(const TensorMap *) {}

// The elements of a box one after the other, those outside of the tensor 0; a multiple of 16 bytes lies where the swizzle of
// 128 bytes says.
WORD void bring_box(u8 *memory, u32 target, const HostMap &map, int column, int row)
{
    memory -= target;
    const u32 wide = map.box[0] * map.element_bytes;
    for (u32 y = 0; y < map.box[1]; ++y)
        for (u32 x = 0; x < map.box[0]; ++x) {
            const i64 at = column + static_cast<i64>(x), line = row + static_cast<i64>(y);
            const bool inside = at >= 0 && line >= 0 && at < static_cast<i64>(map.dims[0]) && line < static_cast<i64>(map.dims[1]);
            u32 place = target + y * wide + x * map.element_bytes;
            if (map.swizzle == 128) place ^= place >> 3 & 0x70;
            if (inside)
                memcpy(memory + place, reinterpret_cast<const u8 *>(map.address) + line * map.strides[0] + at * map.element_bytes,
                       map.element_bytes);
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

WORD void load_box_for(u16 blocks, u32 target, const TensorMap *opaque, u32 barrier, int column, int row)
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

WORD void load_box(u32 target, const TensorMap *map, u32 barrier, int column, int row)
{
    load_box_for(static_cast<u16>(1 << host::current->rank), target, map, barrier, column, row);
}

WORD u32 block_in_cluster() { return host::current->rank; }
WORD void wait_for_cluster()
{
    host::meet(host::cluster_gate, static_cast<u32>(host::fibres.size()), "its cluster");
}

template <int COUNT> WORD void take_registers() {}
template <int COUNT> WORD void give_registers() {}
WORD void hold(float &) {}
WORD void hold(int &) {}
WORD void begin_products() {}

WORD host::Warpgroup &own_warpgroup() { return host::own_block().warpgroups[host::current->number / 128]; }

WORD void commit_products()
{
    host::Warpgroup &own = own_warpgroup();
    const u32 group = own.committed[host::current->number % 128]++;
    if (own.groups.size() <= group) own.groups.resize(group + 1);
    for (auto &product : own.open) own.groups[group].push_back(std::move(product));
    own.open.clear();
}

WORD bool all_committed(const void *warpgroup, unsigned int count)
{
    for (const u32 committed : static_cast<const host::Warpgroup *>(warpgroup)->committed)
        if (committed < count) return false;
    return true;
}

// The products of all four warps are done when one of them no longer has to wait.
template <int LEFT> WORD void wait_for_products()
{
    host::Warpgroup &own = own_warpgroup();
    const u32 committed = own.committed[host::current->number % 128], due = committed > LEFT ? committed - LEFT : 0;
    host::wait_until(all_committed, &own, due, "its warpgroup");
    for (; own.done < due; ++own.done) {
        for (const auto &product : own.groups[own.done]) product();
        own.groups[own.done].clear();
    }
}

// The element (row, k) of an operand, where a descriptor says that it lies.
struct Operand {
    const u8 *memory;
    u64 descriptor;
    bool turned;
    u32 nbytes;

    // Fields that are not used are 0, but of a tile by rows the distance of groups, which is 1.
    bool well_formed() const
    {
        const u64 unused = 0x3fffc000c000c000, groups = descriptor >> 16 & 0x3fff;
        return !(descriptor & unused) && descriptor >> 62 == 1 && (turned || groups == 1);
    }

    const u8 *at(u32 row, u32 k) const
    {
        const u32 begin = (descriptor & 0x3fff) << 4, apart = (descriptor >> 16 & 0x3fff) << 4, eight = (descriptor >> 32 & 0x3fff) << 4;
        const u32 wide = 128 / nbytes;
        const u32 place = turned ? begin + row / wide * apart + k / 8 * eight + k % 8 * 128 + row % wide * nbytes
                                 : begin + row / 8 * eight + row % 8 * 128 + k * nbytes;
        return memory + (place ^ (place >> 3 & 0x70));
    }
};

template <class Of, class Sum, int COUNT> WORD void multiply_operands(Sum *d, int add, Operand a, Operand b, u32 thread)
{
    for (u32 index = 0; index < COUNT; ++index) {
        const u32 row = thread / 32 * 16 + thread % 32 / 4 + index % 4 / 2 * 8, column = index / 4 * 8 + thread % 4 * 2 + index % 2;
        double sum = add ? d[index] : 0;
        for (u32 k = 0; k < 32 / Of::NBYTES; ++k) sum += Of::value(a.at(row, k)) * Of::value(b.at(column, k));
        d[index] = static_cast<Sum>(sum);
    }
}

template <class Of, bool A_TURNED, bool B_TURNED, class Sum, int COUNT>
WORD void begin_product(Sum (&d)[COUNT], u64 a, u64 b, int add)
{
    const u8 *memory = host::own_block().memory - host::FIRST_ADDRESS;
    const Operand left = {memory, a, A_TURNED, Of::NBYTES}, right = {memory, b, B_TURNED, Of::NBYTES};
    if (!left.well_formed() || !right.well_formed()) host::fail("a descriptor that tensor cores do not take");
    Sum *sums = d;
    const u32 thread = host::current->number % 128;
    const auto product = [=] { multiply_operands<Of, Sum, COUNT>(sums, add, left, right, thread); };
    if (host::schedule == host::ASCENDING)
        product();
    else
        own_warpgroup().open.push_back(product);
}

#define WGMMA(name, Of, Sum)                                                                                           \
    template <bool A, bool B, int COUNT> WORD void name(Sum(&d)[COUNT], u64 a, u64 b, int add)                         \
    {                                                                                                                  \
        begin_product<Of, A, B>(d, a, b, add);                                                                         \
    }
WGMMA(wgmma_bf16, OfBf16, float)
WGMMA(wgmma_fp16, OfFp16, float)
WGMMA(wgmma_tf32, OfTf32, float)
WGMMA(wgmma_int8, OfInt8, int)
#undef WGMMA
