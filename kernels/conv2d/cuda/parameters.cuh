// What a convolution's kernel is told: the picture, the other operand and the result of all groups, and phases, which
// are products of their own; what follows of it for a group, a phase and a task; and where sums are stored.
#pragma once
#include "matrix_operand.cuh"
#include "rasterization.cuh"
#include "epilogue.cuh"
#include "weight_operand.cuh"

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
    Matrix other;                          // of a group: weights, by filters, or the gradient, by pixels
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
WORD void store(const Parameters &p, const Phase &phase, const Engine &engine, const Task &t, int rank, u32 buffer,
                int lane)
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
