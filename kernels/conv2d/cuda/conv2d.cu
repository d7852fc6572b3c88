// Convolution and its gradients with the channels last, as products whose operands are gathered while they are
// multiplied (producer.cuh, pipeline.cuh). USE_CORRELATE: rows are pixels of the result, columns its channels, steps
// what the taps see; so are the forward direction and, with a stride phase by phase, the gradient of the input.
// USE_WEIGH: rows are filters, columns taps and channels, steps the pixels of the gradient.
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
    const Ready ready = {memory, memory + Ready::NBYTES};
    const Phase &phase = p.phases[blockIdx.z];
    const int warpgroup = own_warpgroup_number(), thread = threadIdx.x % WARPGROUP;
    const int rank = USE_CLUSTER > 1 ? block_in_cluster() : 0;
    if (threadIdx.x == 0) ready.begin(WARPGROUP + USE_BOXES, Kernel::SHARING * USE_CLUSTER);
    if (USE_CLUSTER > 1)
        wait_for_cluster();
    else
        wait_for_block();
    if (warpgroup == 0) {
        give_registers<Own::PRODUCER>();
#if USE_BOXES
        Producing work = {phase, ready, rank, make_gathered(p, phase, thread), {p, phase, rank, thread, 0}};
#else
        const Matrix other = other_of(p, blockIdx.y);
        Producing work = {phase, ready, rank, make_gathered(p, phase, thread), {make_other(phase, other, thread)}};
#endif
        Kernel::produce(phase.order, ready, work);
    } else {
        take_registers<Own::CONSUMER>();
        const auto lines = [&](const Task &t) { return lines_of(phase, t); };
        const auto put = [&](const Kernel::Engine &engine, const Task &t, u32 buffer) {
            store(p, phase, engine, t, rank, buffer, thread % 32);
        };
        Kernel::multiply<true>(phase.order, ready, warpgroup - 1, thread, lines, put);
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
    if (static_cast<int>(blockIdx.x) >= tasks(phase.order)) return;
    const int thread = threadIdx.x;
    const Task t = task(phase.order, blockIdx.x);
    const Matrix matrix = other_of(p, blockIdx.y);
    Engine engine(thread);
    Gathered gathered = make_gathered(p, phase, thread);
    Other other = make_other(phase, matrix, thread);
#if defined USE_WEIGH
    other.begin(t.down * USE_ROWS);
    gathered.begin(t.across * USE_COLUMNS);
    Pipeline<Engine, Other, Gathered, USE_STAGES> stages = {memory, other, gathered};
#else
    gathered.begin(t.down * USE_ROWS);
    other.begin(t.across * USE_COLUMNS);
    Pipeline<Engine, Gathered, Other, USE_STAGES> stages = {memory, gathered, other};
#endif
    stages.run(engine, t.part * phase.order.steps_of_part, lines_of(phase, t));
    store(p, phase, engine, t, 0, memory + thread / 32 * Strip<Engine>::NBYTES, thread % 32);
}

#endif

// The sums of the parts, group by group, added up.
struct Joined {
    const void *parts;
    int count;
    Parameters p;
};

extern "C" __global__ void __launch_bounds__(256, 4) join(const __grid_constant__ Joined joined)
{
    typedef USE_TYPE::Sum Sum;
    const Phase &phase = joined.p.phases[0];
    const Output output = of_group<USE_TYPE>(joined.p, phase, blockIdx.y);
    const i64 group = static_cast<i64>(joined.count) * output.rows * output.columns;
    const Sum *parts = static_cast<const Sum *>(joined.parts) + blockIdx.y * group;
#if defined USE_WEIGH
    join_parts<USE_TYPE>(parts, joined.count, output, RowsInOrder{output, 0});
#else
    join_parts<USE_TYPE>(parts, joined.count, output, PlacesOfPixels{joined.p, phase});
#endif
}
