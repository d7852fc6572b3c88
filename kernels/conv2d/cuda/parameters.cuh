// What a convolution's kernel is told: the image, the other operand and the result of all groups, and phases, which
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
    Geometry geometry;
    Weights weights;  // by columns
    Rasterization raster;
    i64 first;        // of its pixels in the result, in elements
};

// Groups lie side by side in the image and the result; of the other operand, in lines or in columns.
struct alignas(64) Parameters {
    TensorMap map;                         // of the other operand, where it is brought by boxes
    Image image;
    Matrix other;                          // of a group: weights, by filters, or the gradient, by pixels
    Epilogue epilogue;
    i64 image_stride, row_stride, pixel_stride;                 // of the result, from one pixel of a phase to the next
    i64 group_of_image, group_of_other, group_of_result;  // elements from group to group
    Phase phases[MOST_PHASES];
};

#if defined USE_WEIGHT_GRADIENT
enum { A_LAYOUT = BY_COLUMNS, B_LAYOUT = BY_COLUMNS };
#else
enum { A_LAYOUT = BY_ROWS, B_LAYOUT = USE_TRANSPOSED ? BY_COLUMNS : BY_ROWS };
#endif

// Where a pixel of a phase lies in the result.
struct PixelOffsets {
    const Parameters &p;
    const Phase &phase;
    METHOD i64 offset(int number) const
    {
        const Pixel pixel = pixel_at(phase.geometry, number);
        return phase.first + pixel.image * p.image_stride + pixel.down * p.row_stride + pixel.across * p.pixel_stride;
    }
};

// The result of a group of channels.
template <class Type> DEVICE Epilogue of_group(const Parameters &p, const Phase &phase, int group)
{
    typedef typename Type::Result Result;
    Epilogue epilogue = p.epilogue;
    epilogue.first = static_cast<Result *>(epilogue.first) + group * p.group_of_result;
    if (epilogue.added) epilogue.added = static_cast<const Result *>(epilogue.added) + group * p.group_of_result;
    if (epilogue.scale) epilogue.scale += group * epilogue.columns;
    if (epilogue.bias) epilogue.bias += group * epilogue.columns;
#if defined USE_CORRELATION
    epilogue.rows = phase.geometry.pixels;
#endif
    return epilogue;
}

DEVICE int steps_of(const Phase &phase)
{
#if defined USE_WEIGHT_GRADIENT
    return phase.geometry.pixels;
#else
    return phase.geometry.steps;
#endif
}

DEVICE int lines_of(const Phase &phase, const Task &t)
{
    const int left = steps_of(phase) - t.part * phase.raster.steps_of_part;
    const int steps = left < phase.raster.steps_of_part ? left : phase.raster.steps_of_part;
    return (steps + Width<USE_TYPE>::ELEMENTS - 1) / Width<USE_TYPE>::ELEMENTS;
}

template <class Engine>
DEVICE void store(const Parameters &p, const Phase &phase, const Engine &engine, const Task &t, int rank, u32 buffer,
                int lane)
{
    const int row = (t.down * CLUSTER + rank) * USE_ROWS, column = t.across * USE_COLUMNS;
    const Epilogue epilogue = of_group<USE_STORED>(p, phase, blockIdx.y);
#if defined USE_WEIGHT_GRADIENT || USE_SPLIT_K
    const Finish<USE_STORED, RowsInOrder> finish = {epilogue, {epilogue, t.part}};
#else
    const Finish<USE_STORED, PixelOffsets> finish = {epilogue, {p, phase}};
#endif
    store_strips(engine, finish, buffer, row, column, lane);
}
