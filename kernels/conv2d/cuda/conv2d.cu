// Convolution and its gradients, channels last, as implicit GEMM: one operand is gathered from the image while tiles
// are multiplied (producer.cuh, pipeline.cuh). USE_CORRELATION: rows are pixels of the result, columns its channels,
// steps taps x channels; this computes the forward pass and, for each phase of the stride, the input gradient.
// USE_WEIGHT_GRADIENT: rows are filters, columns taps x channels, steps pixels.
#include "split_k.cuh"
#include "operands.cuh"
#if defined USE_WGMMA
#include "producer.cuh"
#elif defined USE_MMA
#include "mma.cuh"
#include "pipeline.cuh"
#else
#include "pipeline.cuh"
#include "simt.cuh"
#endif

#if defined USE_WGMMA

extern "C" __global__ void __cluster_dims__(USE_CLUSTER, 1, 1) __launch_bounds__(BLOCK, 1)
    conv2d(const __grid_constant__ Parameters p)
{
    const u32 memory = shared_address(shared_memory());
    const Buffers buffers = {memory, memory + Buffers::NBYTES};
    const Phase &phase = p.phases[blockIdx.z];
    const int warpgroup = warpgroup_index(), thread = threadIdx.x % WARPGROUP;
    const int rank = USE_CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) buffers.begin(WARPGROUP + USE_TMA, Kernel::SHARING * USE_CLUSTER);
    if (USE_CLUSTER > 1)
        sync_cluster();
    else
        sync_block();
    if (warpgroup == 0) {
        decrease_registers<RegisterSplit::PRODUCER>();
#if USE_TMA
        ProducerWork work = {phase, buffers, rank, make_gathered(p, phase, thread), {p, phase, rank, thread, 0}};
#else
        const Matrix other = other_of(p, blockIdx.y);
        ProducerWork work = {phase, buffers, rank, make_gathered(p, phase, thread), {make_other(phase, other, thread)}};
#endif
        Kernel::produce(phase.raster, buffers, work);
    } else {
        increase_registers<RegisterSplit::CONSUMER>();
        const auto lines = [&](const Task &t) { return lines_of(phase, t); };
        const auto put = [&](const Kernel::Engine &engine, const Task &t, u32 buffer) {
            store(p, phase, engine, t, rank, buffer, thread % 32);
        };
        Kernel::multiply<true>(phase.raster, buffers, warpgroup - 1, thread, lines, put);
    }
}

#else

#if defined USE_MMA
typedef Mma<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_DOWN, USE_ACROSS, A_LAYOUT, B_LAYOUT> Engine;
#else
typedef Simt<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_DOWN, USE_ACROSS, A_LAYOUT, B_LAYOUT> Engine;
#endif

extern "C" __global__ void __launch_bounds__(COPIERS, USE_BLOCKS) conv2d(const __grid_constant__ Parameters p)
{
    const u32 memory = shared_address(shared_memory());
    const Phase &phase = p.phases[blockIdx.z];
    if (static_cast<int>(blockIdx.x) >= tasks(phase.raster)) return;
    const int thread = threadIdx.x;
    const Task t = task(phase.raster, blockIdx.x);
    const Matrix matrix = other_of(p, blockIdx.y);
    Engine engine(thread);
    Gathered gathered = make_gathered(p, phase, thread);
    Other other = make_other(phase, matrix, thread);
#if defined USE_WEIGHT_GRADIENT
    other.begin(t.down * USE_ROWS);
    gathered.begin(t.across * USE_COLUMNS);
    Pipeline<Engine, Other, Gathered, USE_STAGES> stages = {memory, other, gathered};
#else
    gathered.begin(t.down * USE_ROWS);
    other.begin(t.across * USE_COLUMNS);
    Pipeline<Engine, Gathered, Other, USE_STAGES> stages = {memory, gathered, other};
#endif
    stages.run(engine, t.part * phase.raster.steps_of_part, lines_of(phase, t));
    store(p, phase, engine, t, 0, memory + thread / 32 * Strip<Engine>::NBYTES, thread % 32);
}

#endif

// Split-K reduction, group by group.
struct SplitK {
    const void *parts;
    int count;
    Parameters p;
};

extern "C" __global__ void __launch_bounds__(256, 4) reduce_split_k(const __grid_constant__ SplitK split_k)
{
    typedef USE_TYPE::Sum Sum;
    const Phase &phase = split_k.p.phases[0];
    const Epilogue epilogue = of_group<USE_TYPE>(split_k.p, phase, blockIdx.y);
    const i64 group = static_cast<i64>(split_k.count) * epilogue.rows * epilogue.columns;
    const Sum *parts = static_cast<const Sum *>(split_k.parts) + blockIdx.y * group;
#if defined USE_WEIGHT_GRADIENT
    reduce_parts<USE_TYPE>(parts, split_k.count, epilogue, RowsInOrder{epilogue, 0});
#else
    reduce_parts<USE_TYPE>(parts, split_k.count, epilogue, PixelOffsets{split_k.p, phase});
#endif
}
