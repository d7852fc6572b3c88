// Parameters of a convolution kernel: image, other operand and result of all groups, and phases, each of which is a
// product; the part of a group, a phase and a task; and the store of sums.
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

// Output pixels that see the same taps.
struct Phase {
    Geometry geometry;
    Weights weights;  // MN-major
    Rasterization raster;
    i64 first;        // first pixel in the result, in elements
};

// Groups are contiguous in the channels of image and result; in the other operand, in its lines or columns.
struct alignas(64) Parameters {
    TensorMap map;                         // of the other operand, when TMA loads it
    Image image;
    Matrix other;                          // of a group: weights, a filter a line, or the gradient, a pixel a line
    Epilogue epilogue;
    i64 image_stride, row_stride, pixel_stride;                 // of the result, between pixels of a phase
    i64 group_of_image, group_of_other, group_of_result;  // elements from group to group
    Phase phases[MOST_PHASES];
};

#if defined USE_WEIGHT_GRADIENT
enum { A_LAYOUT = BY_COLUMNS, B_LAYOUT = BY_COLUMNS };
#else
enum { A_LAYOUT = BY_ROWS, B_LAYOUT = USE_TRANSPOSED ? BY_COLUMNS : BY_ROWS };
#endif

// Offset of a pixel of a phase in the result.
struct PixelOffsets {
    const Parameters &p;
    const Phase &phase;
    METHOD i64 offset(int number) const
    {
        const Pixel pixel = pixel_at(phase.geometry, number);
        return phase.first + pixel.image * p.image_stride + pixel.down * p.row_stride + pixel.across * p.pixel_stride;
    }
};

// Epilogue of a group of channels.
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
