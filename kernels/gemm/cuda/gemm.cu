// GEMM: C = A B with the epilogue of epilogue.cuh. Definitions select one of three engines, the type, the tile and the
// operand layouts; sizes are parameters. A is rows x steps, B is columns x steps, each K-major (by rows) or MN-major
// (by columns).
#include "split_k.cuh"
#include "matrix_operand.cuh"
#include "rasterization.cuh"
#include "epilogue.cuh"
#include "pipeline.cuh"
#include "transpose.cuh"
#ifdef USE_WGMMA
#include "warp_specialized.cuh"
#elif defined USE_MMA
#include "mma.cuh"
#else
#include "simt.cuh"
#endif

// USE_STORED: type of stored results, USE_TYPE, or the type of the sums for split-K.
struct alignas(64) Parameters {
    TensorMap map_of_a, map_of_b;  // for TMA
    Matrix a, b;                   // for copies by threads
    Epilogue epilogue;
    Rasterization raster;
    int steps;
};

DEVICE int lines_of(const Parameters &p, int part)
{
    const int left = p.steps - part * p.raster.steps_of_part;
    const int steps = left < p.raster.steps_of_part ? left : p.raster.steps_of_part;
    return (steps + Width<USE_TYPE>::ELEMENTS - 1) / Width<USE_TYPE>::ELEMENTS;
}

#ifdef USE_WGMMA

typedef WarpSpecialized<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_STAGES, USE_CLUSTER, USE_PING_PONG, USE_A_LAYOUT,
                        USE_B_LAYOUT>
    Kernel;
typedef Kernel::Buffers Buffers;

// Load lines [from, from + COUNT) of a tile by TMA boxes; `send` gets the target, column and row of each.
template <int LAYOUT, int COUNT, class Send>
DEVICE void tma_load_tile(u32 tile, int from, int row, int step, const Send &send)
{
    enum { GROUP = Width<USE_TYPE>::ELEMENTS };
    if constexpr (LAYOUT == BY_ROWS)
        send(tile + from * LINE, step, row + from);
    else
        for (int at = from; at < from + COUNT; at += GROUP) send(tile + at * LINE, row + at, step);
}

DEVICE void produce(const Parameters &p, const Buffers &buffers, int rank)
{
    Kernel::RingPosition ring = {0, 1};
    prefetch_tensor_map(&p.map_of_a);
    prefetch_tensor_map(&p.map_of_b);
    for (int number = blockIdx.x / USE_CLUSTER; number < tasks(p.raster); number += gridDim.x / USE_CLUSTER) {
        const Task t = task(p.raster, number);
        const int row = (t.down * USE_CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
        for (int line = 0; line < lines_of(p, t.part); ++line, ring.step()) {
            const int step = t.part * p.raster.steps_of_part + line * Width<USE_TYPE>::ELEMENTS;
            const u32 full = buffers.full(ring.stage);
            wait_for_phase(buffers.empty(ring.stage), ring.parity);
            arrive_and_expect(full, Buffers::STAGE);
            tma_load_tile<USE_A_LAYOUT, USE_ROWS>(buffers.a(ring.stage), 0, row, step, [&](u32 target, int x, int y) {
                tma_load(target, &p.map_of_a, full, x, y);
            });
            // Blocks of a cluster have the same columns; each loads a part for all.
            enum { SHARE = USE_COLUMNS / USE_CLUSTER };
            static_assert(USE_B_LAYOUT == BY_ROWS || SHARE % Width<USE_TYPE>::ELEMENTS == 0, "shares of whole boxes");
            const auto share = [&](u32 target, int x, int y) {
                if (USE_CLUSTER > 1)
                    tma_load_multicast((1 << USE_CLUSTER) - 1, target, &p.map_of_b, full, x, y);
                else
                    tma_load(target, &p.map_of_b, full, x, y);
            };
            tma_load_tile<USE_B_LAYOUT, SHARE>(buffers.b(ring.stage), rank * SHARE, column, step, share);
        }
    }
    // A block must not exit before the other blocks of its cluster have released its loads: they arrive at its
    // barriers.
    for (int stage = 0; USE_CLUSTER > 1 && stage < USE_STAGES; ++stage, ring.step())
        wait_for_phase(buffers.empty(ring.stage), ring.parity);
}

DEVICE void multiply(const Parameters &p, const Buffers &buffers, int rank, int consumer, int thread)
{
    const auto store = [&](const Kernel::Engine &engine, const Task &t, u32 buffer) {
        const Finish<USE_STORED, RowsInOrder> finish = {p.epilogue, {p.epilogue, t.part}};
        const int row = (t.down * USE_CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
        store_strips(engine, finish, buffer, row, column, thread % 32);
    };
    const auto lines = [&](const Task &t) { return lines_of(p, t.part); };
    Kernel::multiply<false>(p.raster, buffers, consumer, thread, lines, store);
}

extern "C" __global__ void __cluster_dims__(USE_CLUSTER, 1, 1) __launch_bounds__(BLOCK, 1)
    gemm(const __grid_constant__ Parameters p)
{
    const u32 memory = shared_address(shared_memory());
    const Buffers buffers = {memory, memory + Buffers::NBYTES};
    const int warpgroup = warpgroup_index(), rank = USE_CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) buffers.begin(1, Kernel::SHARING * USE_CLUSTER);
    if (USE_CLUSTER > 1)
        sync_cluster();
    else
        sync_block();
    if (warpgroup == 0) {
        decrease_registers<Registers<40>::PRODUCER>();
        if (threadIdx.x == 0) produce(p, buffers, rank);
    } else {
        increase_registers<Registers<40>::CONSUMER>();
        multiply(p, buffers, rank, warpgroup - 1, threadIdx.x % WARPGROUP);
    }
}

#else

#ifdef USE_MMA
typedef Mma<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_DOWN, USE_ACROSS, USE_A_LAYOUT, USE_B_LAYOUT> Engine;
#else
typedef Simt<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_DOWN, USE_ACROSS, USE_A_LAYOUT, USE_B_LAYOUT> Engine;
#endif
enum { THREADS = 32 * Engine::WARPS };
typedef Loader<USE_TYPE, USE_ROWS, THREADS, USE_PIECE, USE_A_LAYOUT == BY_COLUMNS>::Source A;
typedef Loader<USE_TYPE, USE_COLUMNS, THREADS, USE_PIECE, USE_B_LAYOUT == BY_COLUMNS>::Source B;
typedef Pipeline<Engine, A, B, USE_STAGES> Pipelined;

extern "C" __global__ void __launch_bounds__(THREADS, USE_BLOCKS) gemm(const __grid_constant__ Parameters p)
{
    const u32 memory = shared_address(shared_memory());
    const int thread = threadIdx.x;
    const Task t = task(p.raster, blockIdx.x);
    Engine engine(thread);
    A a(p.a, thread);
    B b(p.b, thread);
    a.begin(t.down * USE_ROWS);
    b.begin(t.across * USE_COLUMNS);
    Pipelined{memory, a, b}.run(engine, t.part * p.raster.steps_of_part, lines_of(p, t.part));
    const Finish<USE_STORED, RowsInOrder> finish = {p.epilogue, {p.epilogue, t.part}};
    const u32 buffer = memory + thread / 32 * Strip<Engine>::NBYTES;
    store_strips(engine, finish, buffer, t.down * USE_ROWS, t.across * USE_COLUMNS, thread % 32);
}

#endif

struct SplitK {
    const void *parts;
    Epilogue epilogue;
    int count;
};

extern "C" __global__ void __launch_bounds__(256, 4) reduce_split_k(const __grid_constant__ SplitK p)
{
    reduce_parts<USE_TYPE>(p.parts, p.count, p.epilogue, RowsInOrder{p.epilogue, 0});
}

#ifndef USE_SIMT

extern "C" __global__ void __launch_bounds__(TRANSPOSE_THREADS) transpose(const __grid_constant__ Transposition p)
{
    Transpose<USE_TYPE::Element>::square(p, shared_address(shared_memory()));
}

#endif
