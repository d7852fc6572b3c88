// Convolution and its gradients with the channels last, as products whose operands are gathered while they are multiplied
// (pictures.cuh). USE_CORRELATE: rows are pixels of the result, columns its channels, steps what the taps see; so are the
// forward direction and, with a stride phase by phase, the gradient of the input. USE_WEIGH: rows are filters, columns taps
// and channels, steps the pixels of the gradient.
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

enum { MOST_PHASES = 4 };

// Pixels of the result that see the same taps.
struct Phase {
    Walk walk;
    Weights weights;  // by columns
    Order order;
    i64 first;        // of its pixels in the result, in elements
};

struct Parameters {
    Picture picture;
    Matrix other;                          // weights by rows, or the gradient, whose lines are pixels
    Output output;
    i64 image, row, pixel;                 // of the result, from one pixel of a phase to the next
    i64 group_of_picture, group_of_other, group_of_result;  // elements from group to group
    Phase phases[MOST_PHASES];
};

#if defined USE_WGMMA
enum { COPIERS = WARPGROUP };
#else
enum { COPIERS = 32 * USE_DOWN * USE_ACROSS };
#endif
#if defined USE_WEIGH
enum { A_LAYOUT = BY_COLUMNS, B_LAYOUT = BY_COLUMNS };
typedef MatrixByColumns<USE_TYPE, USE_ROWS, COPIERS, VECTOR> A;
typedef PixelsByColumns<USE_TYPE, USE_COLUMNS, COPIERS> B;
#else
enum { A_LAYOUT = BY_ROWS, B_LAYOUT = USE_TURNED ? BY_COLUMNS : BY_ROWS };
typedef PixelsByRows<USE_TYPE, USE_ROWS, COPIERS> A;
#if USE_TURNED
typedef WeightsByColumns<USE_TYPE, USE_COLUMNS, COPIERS> B;
#else
typedef MatrixByRows<USE_TYPE, USE_COLUMNS, COPIERS, VECTOR> B;
#endif
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

WORD A make_a(const Parameters &p, const Phase &phase, const Matrix &other, int thread)
{
#if defined USE_WEIGH
    return A(other, thread);
#else
    return A(p.picture, phase.walk, blockIdx.y * p.group_of_picture, thread);
#endif
}

WORD B make_b(const Parameters &p, const Phase &phase, const Matrix &other, int thread)
{
#if defined USE_WEIGH
    return B(p.picture, phase.walk, blockIdx.y * p.group_of_picture, thread);
#elif USE_TURNED
    return B(phase.weights, blockIdx.y * p.group_of_other, thread);
#else
    return B(other, thread);
#endif
}

// The matrix of a group.
WORD Matrix other_of(const Parameters &p, int group)
{
    Matrix other = p.other;
    other.first = static_cast<const USE_TYPE::Element *>(other.first) + group * p.group_of_other;
    return other;
}

template <class Engine>
WORD void store(const Parameters &p, const Phase &phase, const Engine &engine, const Task &t, u32 buffer, int lane)
{
    const int row = t.down * USE_ROWS, column = t.across * USE_COLUMNS;
    const Output output = of_group<USE_STORED>(p, phase, blockIdx.y);
#if defined USE_WEIGH || USE_IN_PARTS
    const Finish<USE_STORED, RowsInOrder> finish = {output, {output, t.part}};
#else
    const Finish<USE_STORED, PlacesOfPixels> finish = {output, {p, phase}};
#endif
    store_strips(engine, finish, buffer, row, column, lane);
}

#if defined USE_WGMMA

typedef Specialised<USE_TYPE, USE_ROWS, USE_COLUMNS, USE_STAGES, 1, USE_ALTERNATE, A_LAYOUT, B_LAYOUT> Kernel;

extern "C" __global__ void __launch_bounds__(BLOCK, 1) conv2d(const __grid_constant__ Parameters p)
{
    const u32 memory = shared_address(shared_memory());
    const Kernel::Ready ready = {memory, memory + Kernel::Ready::NBYTES};
    const Phase &phase = p.phases[blockIdx.z];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const auto lines = [&](const Task &t) { return lines_of(phase, t); };
    if (threadIdx.x == 0) ready.begin(WARPGROUP, Kernel::SHARING);
    wait_for_block();
    if (warpgroup == 0) {
        give_registers<Registers<104>::PRODUCER>();
        const Matrix other = other_of(p, blockIdx.y);
        A a = make_a(p, phase, other, thread);
        B b = make_b(p, phase, other, thread);
        const auto begin = [&](const Task &t) {
            a.begin(t.down * USE_ROWS);
            b.begin(t.across * USE_COLUMNS);
            return t.part * phase.order.steps_of_part;
        };
        Kernel::produce(phase.order, ready, a, b, begin, lines);
    } else {
        take_registers<Registers<104>::CONSUMER>();
        const auto put = [&](const Kernel::Engine &engine, const Task &t, u32 buffer) {
            store(p, phase, engine, t, buffer, thread % 32);
        };
        Kernel::multiply(phase.order, ready, warpgroup - 1, thread, lines, put);
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
    const Matrix other = other_of(p, blockIdx.y);
    Engine engine(thread);
    A a = make_a(p, phase, other, thread);
    B b = make_b(p, phase, other, thread);
    a.begin(t.down * USE_ROWS);
    b.begin(t.across * USE_COLUMNS);
    Pipeline<Engine, A, B, USE_STAGES>{memory, a, b}.run(engine, t.part * phase.order.steps_of_part, lines_of(phase, t));
    store(p, phase, engine, t, memory + thread / 32 * Strip<Engine>::NBYTES, thread % 32);
}

#endif

// The sums of the parts, group by group, added up.
struct Joined {
    const void *parts;
    int count;
    Parameters p;
};

extern "C" __global__ void __launch_bounds__(256) join(const __grid_constant__ Joined joined)
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
