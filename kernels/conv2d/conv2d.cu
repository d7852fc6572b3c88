// Convolution and its gradients with the channels last, as products whose operands are gathered while they are multiplied
// (pictures.cuh). USE_CORRELATE: rows are pixels of the result, columns its channels, steps what the taps see; so are the
// forward direction and, with a stride phase by phase, the gradient of the input. USE_WEIGH: rows are filters, columns taps
// and channels, steps the pixels of the gradient.
#include "boxes.cuh"
#include "join.cuh"
#include "matrices.cuh"
#include "order.cuh"
#include "output.cuh"
#include "pictures.cuh"
#include "pipeline.cuh"
#if defined USE_WGMMA
#include "specialised.cuh"
#elif defined USE_MMA
#include "mma.cuh"
#else
#include "simt.cuh"
#endif

#ifdef USE_CLUSTER
enum { CLUSTER = USE_CLUSTER };
#else
enum { CLUSTER = 1 };
#endif
enum { MOST_PHASES = 4 };

// Pixels of the result that see the same taps.
struct Phase {
    Walk walk;
    Weights weights;  // by columns
    Order order;
    i64 first;        // of its pixels in the result, in elements
};

// Groups lie side by side in the picture and the result; of the other operand, in lines or in columns.
struct alignas(64) Parameters {
    TensorMap map;                         // of the other operand, where it is brought by boxes
    Picture picture;
    Matrix other;                          // of a group: weights, whose lines are filters, or the gradient, whose lines are pixels
    Output output;
    i64 image, row, pixel;                 // of the result, from one pixel of a phase to the next
    i64 group_of_picture, group_of_other, group_of_result;  // elements from group to group
    Phase phases[MOST_PHASES];
};

#if defined USE_WEIGH
enum { A_LAYOUT = BY_COLUMNS, B_LAYOUT = BY_COLUMNS };
#else
enum { A_LAYOUT = BY_ROWS, B_LAYOUT = USE_TURNED ? BY_COLUMNS : BY_ROWS };
#endif

// Where a pixel of a phase lies in the result.
struct PlacesOfPixels {
    const Parameters &p;
    const Phase &phase;
    METHOD i64 offset(int number) const
    {
        const Pixel pixel = pixel_at(phase.walk, number);
        return phase.first + pixel.image * p.image + pixel.down * p.row + pixel.across * p.pixel;
    }
};

// The result of a group of channels.
template <class Type> WORD Output of_group(const Parameters &p, const Phase &phase, int group)
{
    typedef typename Type::Result Result;
    Output output = p.output;
    output.first = static_cast<Result *>(output.first) + group * p.group_of_result;
    if (output.added) output.added = static_cast<const Result *>(output.added) + group * p.group_of_result;
    if (output.scale) output.scale += group * output.columns;
    if (output.bias) output.bias += group * output.columns;
#if defined USE_CORRELATE
    output.rows = phase.walk.pixels;
#endif
    return output;
}

WORD int steps_of(const Phase &phase)
{
#if defined USE_WEIGH
    return phase.walk.pixels;
#else
    return phase.walk.steps;
#endif
}

WORD int lines_of(const Phase &phase, const Task &t)
{
    const int left = steps_of(phase) - t.part * phase.order.steps_of_part;
    const int steps = left < phase.order.steps_of_part ? left : phase.order.steps_of_part;
    return (steps + Width<USE_TYPE>::ELEMENTS - 1) / Width<USE_TYPE>::ELEMENTS;
}

template <class Engine>
WORD void store(const Parameters &p, const Phase &phase, const Engine &engine, const Task &t, int rank, u32 buffer, int lane)
{
    const int row = (t.down * CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
    const Output output = of_group<USE_STORED>(p, phase, blockIdx.y);
#if defined USE_WEIGH || USE_IN_PARTS
    const Finish<USE_STORED, RowsInOrder> finish = {output, {output, t.part}};
#else
    const Finish<USE_STORED, PlacesOfPixels> finish = {output, {p, phase}};
#endif
    store_strips(engine, finish, buffer, row, column, lane);
}

#if defined USE_WGMMA
enum { COPIERS = WARPGROUP };
#else
enum { COPIERS = 32 * USE_DOWN * USE_ACROSS };
#endif

#if defined USE_WEIGH
typedef PixelsByColumns<USE_TYPE, USE_COLUMNS, COPIERS> Gathered;
#else
typedef PixelsByRows<USE_TYPE, USE_ROWS, COPIERS> Gathered;
#endif

WORD Gathered make_gathered(const Parameters &p, const Phase &phase, int thread)
{
    return Gathered(p.picture, phase.walk, blockIdx.y * p.group_of_picture, thread);
}

// The other operand, where threads copy it.
#if !USE_BOXES
#if defined USE_WEIGH
typedef MatrixByColumns<USE_TYPE, USE_ROWS, COPIERS, VECTOR> Other;
#elif USE_TURNED
typedef WeightsByColumns<USE_TYPE, USE_COLUMNS, COPIERS> Other;
#else
typedef MatrixByRows<USE_TYPE, USE_COLUMNS, COPIERS, VECTOR> Other;
#endif

// The matrix of a group.
WORD Matrix other_of(const Parameters &p, int group)
{
    Matrix other = p.other;
    other.first = static_cast<const USE_TYPE::Element *>(other.first) + group * p.group_of_other;
    return other;
}

WORD Other make_other(const Phase &phase, const Matrix &other, int thread)
{
#if defined USE_CORRELATE && USE_TURNED
    return Other(phase.weights, other, thread);
#else
    return Other(other, thread);
#endif
}
#endif

#if defined USE_WGMMA

typedef Specialised<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_STAGES, USE_CLUSTER, USE_ALTERNATE, A_LAYOUT, B_LAYOUT> Kernel;
typedef Kernel::Ready Ready;
typedef Registers<88> Own;

// What brings the other operand: boxes, which the first thread asks for, or all threads.
#if USE_BOXES
struct Sent {
#if defined USE_WEIGH
    enum { ROWS = USE_ROWS, LAYOUT = A_LAYOUT };
    static_assert(USE_CLUSTER == 1, "blocks of a cluster would share what is gathered");
#else
    enum { ROWS = USE_COLUMNS, LAYOUT = B_LAYOUT };
#endif
    enum { SHARE = ROWS / USE_CLUSTER };  // blocks of a cluster have the same columns: each brings a part for all
    const Parameters &p;
    const Phase &phase;
    const int share, thread;
    int first;

    METHOD void begin(int row) { first = row + share * SHARE; }
    METHOD void aim(int) {}
    METHOD void settle(u32) const {}

    METHOD void bring(u32 tile, int step, u32 full) const
    {
        if (thread) return;
        arrive_and_expect(full, ROWS * LINE);
#if defined USE_WEIGH
        send(tile, full, blockIdx.y * p.other.columns + first, step);
#elif USE_TURNED
        const Weight weight = weight_at(phase.weights, step);
        send(tile, full, weight.tap + first, blockIdx.y * p.other.lines + weight.filter);
#else
        send(tile, full, blockIdx.y * p.other.lines + first, step);
#endif
    }

    METHOD void send(u32 tile, u32 full, int row, int step) const
    {
        send_boxes<USE_TYPE, LAYOUT, SHARE, USE_CLUSTER>(&p.map, full, tile + share * SHARE * LINE, row, step);
    }
};
#else
struct Sent {
    static_assert(USE_CLUSTER == 1, "each thread copies to its own block");
    Other other;
    METHOD void begin(int row) { other.begin(row); }
    METHOD void aim(int step) { other.aim(step); }
    METHOD void settle(u32) const {}
    METHOD void bring(u32 tile, int step, u32) const { other.bring(tile, step); }
};
#endif

struct Producing {
    const Phase &phase;
    const Ready &ready;
    const int rank;  // of the block in its cluster
    Gathered gathered;
    Sent sent;

#if defined USE_WEIGH
    METHOD u32 of_gathered(int stage) const { return ready.b(stage); }
    METHOD u32 of_sent(int stage) const { return ready.a(stage); }
#else
    METHOD u32 of_gathered(int stage) const { return ready.a(stage); }
    METHOD u32 of_sent(int stage) const { return ready.b(stage); }
#endif
    METHOD int begin(const Task &t)
    {
        const int row = (t.down * CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
#if defined USE_WEIGH
        gathered.begin(column);
        sent.begin(row);
#else
        gathered.begin(row);
        sent.begin(column);
#endif
        return t.part * phase.order.steps_of_part;
    }
    METHOD int lines(const Task &t) const { return lines_of(phase, t); }
    METHOD void aim(int step)
    {
        gathered.aim(step);
        sent.aim(step);
    }
    METHOD void bring(int stage, int step) const
    {
        sent.bring(of_sent(stage), step, ready.full(stage));
        gathered.bring(of_gathered(stage), step);
    }
    METHOD void settle(int stage) const { gathered.settle(of_gathered(stage)); }
};

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
