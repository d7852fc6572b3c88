// On a host: products by warpgroups. See host_ptx.h.
#pragma once

DEVICE void wgmma_fence() {}

DEVICE void wgmma_commit()
{
    host::Warpgroup &own = own_warpgroup();
    const u32 group = own.committed[host::current->number % 128]++;
    if (own.groups.size() <= group) own.groups.resize(group + 1);
    for (auto &product : own.open) own.groups[group].push_back(std::move(product));
    own.open.clear();
}

DEVICE bool all_committed(const void *warpgroup, unsigned int count)
{
    for (const u32 committed : static_cast<const host::Warpgroup *>(warpgroup)->committed)
        if (committed < count) return false;
    return true;
}

// The products of all four warps are done when one of them no longer has to wait.
template <int LEFT> DEVICE void wgmma_wait()
{
    host::Warpgroup &own = own_warpgroup();
    const u32 committed = own.committed[host::current->number % 128], due = committed > LEFT ? committed - LEFT : 0;
    host::wait_until(all_committed, &own, due, "its warpgroup");
    for (; own.done < due; ++own.done) {
        for (const auto &product : own.groups[own.done]) product();
        own.groups[own.done].clear();
    }
}

// An operand in the layout of a descriptor; `at` gives the place of its element (row, k).
struct Operand {
    const u8 *memory;
    u64 descriptor;
    bool transposed;
    u32 nbytes;

    // Unused fields are 0, except the distance of groups of a tile by rows, which is 1.
    bool well_formed() const
    {
        const u64 unused = 0x3fffc000c000c000, groups = descriptor >> 16 & 0x3fff;
        return !(descriptor & unused) && descriptor >> 62 == 1 && (transposed || groups == 1);
    }

    // All of its rows that threads have written were published since, by the writing or by the multiplying thread.
    bool published(u32 rows, const host::Block &block) const
    {
        const u32 step = 16 / nbytes;
        for (u32 row = 0; row < rows; row += transposed ? step : 1)
            for (u32 k = 0; k < 32 / nbytes; k += transposed ? 1 : step) {
                const size_t vector = (at(row, k) - block.memory) / host::VECTOR_BYTES;
                if (vector >= block.writings.size()) return false;
                const host::Writing &last = block.writings[vector];
                const u32 by_writer = block.copies[last.thread].published;
                const u32 by_self = block.copies[host::current->number].published;
                if (last.number > by_writer && last.number > by_self) return false;
            }
        return true;
    }

    const u8 *at(u32 row, u32 k) const
    {
        const u32 begin = (descriptor & 0x3fff) << 4, apart = (descriptor >> 16 & 0x3fff) << 4;
        const u32 eight = (descriptor >> 32 & 0x3fff) << 4, wide = 128 / nbytes;
        const u32 place = transposed ? begin + row / wide * apart + k / 8 * eight + k % 8 * 128 + row % wide * nbytes
                                     : begin + row / 8 * eight + row % 8 * 128 + k * nbytes;
        return memory + (place ^ (place >> 3 & 0x70));
    }
};

template <class Of, class Sum, int COUNT>
DEVICE void multiply_operands(Sum *d, int add, Operand a, Operand b, u32 thread)
{
    for (u32 index = 0; index < COUNT; ++index) {
        const u32 row = thread / 32 * 16 + thread % 32 / 4 + index % 4 / 2 * 8;
        const u32 column = index / 4 * 8 + thread % 4 * 2 + index % 2;
        double sum = add ? d[index] : 0;
        for (u32 k = 0; k < 32 / Of::NBYTES; ++k) sum += Of::value(a.at(row, k)) * Of::value(b.at(column, k));
        d[index] = static_cast<Sum>(sum);
    }
}

template <class Of, bool A_TRANSPOSED, bool B_TRANSPOSED, class Sum, int COUNT>
DEVICE void begin_product(Sum (&d)[COUNT], u64 a, u64 b, int add)
{
    const u8 *memory = host::own_block().memory - host::FIRST_ADDRESS;
    const Operand left = {memory, a, A_TRANSPOSED, Of::NBYTES}, right = {memory, b, B_TRANSPOSED, Of::NBYTES};
    if (!left.well_formed() || !right.well_formed()) host::fail("a descriptor that tensor cores do not allow");
    Sum *sums = d;
    const u32 thread = host::current->number % 128;
    if (thread == 0 && !(left.published(64, host::own_block()) && right.published(2 * COUNT, host::own_block())))
        host::fail("a product of elements that threads wrote and did not publish");
    const auto product = [=] { multiply_operands<Of, Sum, COUNT>(sums, add, left, right, thread); };
    if (host::schedule == host::ASCENDING)
        product();
    else
        own_warpgroup().open.push_back(product);
}

#define WGMMA(name, Of, Sum)                                                                                           \
    template <bool A, bool B, int COUNT> DEVICE void name(Sum(&d)[COUNT], u64 a, u64 b, int add)                       \
    {                                                                                                                  \
        begin_product<Of, A, B>(d, a, b, add);                                                                         \
    }
WGMMA(wgmma_bf16, OfBf16, float)
WGMMA(wgmma_fp16, OfFp16, float)
WGMMA(wgmma_tf32, OfTf32, float)
WGMMA(wgmma_int8, OfInt8, int)
#undef WGMMA
