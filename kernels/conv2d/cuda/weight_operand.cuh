// Weights as an operand of the input gradient.
#pragma once
#include "matrix_operand.cuh"
#include "geometry.cuh"

// Steps are (tap, filter), columns are channels: a line holds the channels of a filter at a tap. Taps are those that a
// phase sees.
struct Weights {
    Divisor of_filters, of_taps;
    int skipped, row, column;   // elements before the first tap, and between taps
    int steps, channels;
};

// Offset of the channels of a step in a filter, negative beyond the last step, and the filter.
struct Weight {
    int tap, filter;
};

DEVICE Weight weight_at(const Weights &weights, int step)
{
    const int tap = quotient(step, weights.of_filters);
    const int filter = step - tap * static_cast<int>(weights.of_filters.divisor);
    const int r = quotient(tap, weights.of_taps), s = tap - r * static_cast<int>(weights.of_taps.divisor);
    return {step < weights.steps ? weights.skipped + r * weights.row + s * weights.column : -BEYOND, filter};
}

template <class Type, int COLUMNS, int THREADS> struct WeightsByColumns {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_COLUMNS, NBYTES = COLUMNS * LINE, STEPS = Width<Type>::ELEMENTS, GROUPS = COLUMNS / STEPS };
    enum { APART = THREADS / VECTORS, PER_THREAD = STEPS / APART, COUNT = Width<Type>::VECTOR_ELEMENTS };
    static_assert(STEPS % APART == 0 && COLUMNS % STEPS == 0, "threads share the lines out evenly");

    const Weights &weights;
    const Matrix &matrix;  // lines are the filters of a group
    const int thread;
    int channel;
    Weight lines[PER_THREAD];

    METHOD WeightsByColumns(const Weights &weights, const Matrix &matrix, int thread)
        : weights(weights), matrix(matrix), thread(thread), channel(0)
    {
    }

    METHOD void begin(int column) { channel = column + thread % VECTORS * COUNT; }

    METHOD void prepare(int step)
    {
        lookup_lines(lines, thread, APART, [&](int line) { return weight_at(weights, step + line); });
    }

    METHOD void load(u32 target, int) const
    {
        UNROLL
        for (int item = 0; item < PER_THREAD; ++item) {
            const u32 own = target + swizzled_offset(thread / VECTORS + item * APART, thread % VECTORS);
            const Element *source = static_cast<const Element *>(matrix.first) + lines[item].filter * matrix.pitch;
            source += lines[item].tap + channel;
            UNROLL
            for (int group = 0; group < GROUPS; ++group)
                copy_async<VECTOR>(own + group * (STEPS * LINE), source + group * STEPS,
                                   lines[item].tap >= 0 && channel + group * STEPS < weights.channels);
        }
    }

    METHOD void finish_load(u32) const {}
};
