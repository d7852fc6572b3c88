// Operands stored as matrices, and loads of their tiles to shared memory by a group of threads. Each class has a
// LAYOUT, the NBYTES of a tile, `begin` for the tile that starts at a row of the operand, and `load` for the steps from
// `step` on. PIECE: bytes whose alignment is guaranteed.
#pragma once
#include "shared_tile.cuh"

struct Matrix {
    const void *first;
    i64 pitch;  // elements from line to line
    int lines, columns;
};

// K-major: a line is a row of the operand, its columns are steps of the sum.
template <class Type, int ROWS, int THREADS, int PIECE> struct MatrixByRows {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_ROWS, NBYTES = ROWS * LINE, APART = THREADS / VECTORS, PER_THREAD = ROWS / APART };
    static_assert(ROWS % APART == 0, "threads share the rows out evenly");

    const Matrix &matrix;
    const int line, vector;
    const Element *source;  // first vector of this thread, in step 0
    int left;               // rows from there on

    METHOD MatrixByRows(const Matrix &matrix, int thread)
        : matrix(matrix), line(thread / VECTORS), vector(thread % VECTORS), source(nullptr), left(0)
    {
    }

    METHOD void begin(int first)
    {
        const i64 row = first + line;
        source = static_cast<const Element *>(matrix.first) + row * matrix.pitch;
        source += vector * Width<Type>::VECTOR_ELEMENTS;
        left = matrix.lines - first - line;
    }
    METHOD void prepare(int) {}

    METHOD void load(u32 target, int step) const
    {
        const int columns = matrix.columns - step - vector * static_cast<int>(Width<Type>::VECTOR_ELEMENTS);
        UNROLL
        for (int item = 0; item < PER_THREAD; ++item)
            copy_vector<Element, PIECE>(target + swizzled_offset(line + item * APART, vector),
                                        source + step + item * APART * matrix.pitch, item * APART < left ? columns : 0);
    }
};

// MN-major: a line is a step of the sum, its columns are rows of the operand.
template <class Type, int ROWS, int THREADS, int PIECE> struct MatrixByColumns {
    typedef typename Type::Element Element;
    enum { LAYOUT = BY_COLUMNS, NBYTES = ROWS * LINE, APART = THREADS / VECTORS, PER_THREAD = ROWS / APART };
    enum { STEPS = Width<Type>::ELEMENTS };
    static_assert(ROWS % APART == 0 && ROWS % STEPS == 0, "threads share the lines out evenly");

    const Matrix &matrix;
    const int line, vector;
    const Element *source;
    int left;  // columns from there on

    METHOD MatrixByColumns(const Matrix &matrix, int thread)
        : matrix(matrix), line(thread / VECTORS), vector(thread % VECTORS), source(nullptr), left(0)
    {
    }

    METHOD void begin(int first)
    {
        const int column = first + vector * Width<Type>::VECTOR_ELEMENTS + line / STEPS * STEPS;
        source = static_cast<const Element *>(matrix.first) + line % STEPS * matrix.pitch + column;
        left = matrix.columns - column;
    }
    METHOD void prepare(int) {}

    METHOD void load(u32 target, int step) const
    {
        const Element *first = source + step * matrix.pitch;
        const int lines = matrix.lines - step - line % STEPS;
        UNROLL
        for (int item = 0; item < PER_THREAD; ++item) {
            const int at = line + item * APART, further = item * APART % STEPS, column = item * APART / STEPS * STEPS;
            copy_vector<Element, PIECE>(target + at / STEPS * (STEPS * LINE) + swizzled_offset(at % STEPS, vector),
                                        first + further * matrix.pitch + column, further < lines ? left - column : 0);
        }
    }
};

template <class Type, int ROWS, int THREADS, int PIECE, bool BY_COLUMN> struct Loader {
    typedef MatrixByRows<Type, ROWS, THREADS, PIECE> Source;
};
template <class Type, int ROWS, int THREADS, int PIECE> struct Loader<Type, ROWS, THREADS, PIECE, true> {
    typedef MatrixByColumns<Type, ROWS, THREADS, PIECE> Source;
};
