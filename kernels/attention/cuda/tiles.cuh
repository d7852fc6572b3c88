// Tiles of attention in shared memory, SIDE places of SIDE features or keys, and the rows that they are copied from.
#pragma once
#include "warp.cuh"

typedef USE_TYPE Type;
typedef Type::Element Element;
typedef Squares<Type> Tile;
typedef Warp<Type> Place;
typedef Place::Products Products;  // of rows with rows
typedef Place::Sums Sums;          // of rows, weighted
enum { TILE = Tile::TILE, ROWS = Place::ROWS, COLUMNS = Place::COLUMNS };

// Rows of an array [batch][heads][places][features]; strides in numbers.
struct Heads {
    Element *first;
    i64 sample, head, place;
};

struct Parameters {
    Heads queries, keys, values, out, gradient;  // `gradient` is that of `out`
    Heads of_queries, of_keys, of_values;        // their gradients
    float *log_sums, *means;                     // [batch][heads][places]
    int heads, places, chunks;                   // chunks of SIDE features
    float scale, scale_of_2;                     // of the scores, and the same for base 2
};

// The rows of a head.
struct Rows {
    Element *first;
    i64 pitch;
    int places;

    METHOD Rows(const Heads &array, const Parameters &p)
        : first(array.first + blockIdx.x / p.heads * array.sample + blockIdx.x % p.heads * array.head),
          pitch(array.place), places(p.places)
    {
    }
};

// Begin to copy a tile of rows from `first` on, features from `feature` on; rows that do not exist become 0.
DEVICE void load_tile(u32 tile, const Rows &rows, int first, int feature)
{
    enum { ACROSS = SIDE / Width<Type>::VECTOR_ELEMENTS, APART = THREADS / ACROSS };
    const int vector = threadIdx.x % ACROSS;
    UNROLL
    for (int k = 0; k < SIDE / APART; ++k) {
        const int row = threadIdx.x / ACROSS + k * APART;
        const bool there = first + row < rows.places;
        const Element *from = rows.first + (there ? first + row : 0) * rows.pitch + feature;
        copy_async<VECTOR>(Tile::vector_at(tile, row, vector), from + vector * Width<Type>::VECTOR_ELEMENTS, there);
    }
}

// COUNT neighbouring numbers of a row in registers, times a factor, in the type of the operands.
template <int COUNT, class Engine>
DEVICE Vector<Element, COUNT> stored(Engine &engine, int row, int column, float factor)
{
    float numbers[COUNT];
    UNROLL
    for (int k = 0; k < COUNT; ++k) numbers[k] = Place::number(engine, row, column + k) * factor;
    Vector<Element, COUNT> made;
    Type::store(made.values, numbers);
    return made;
}

// Store the products of a block as a tile of weights.
DEVICE void store_weights(u32 tile, const Place &at, Products &products)
{
    enum { PIECE = Place::PIECE, OF_VECTOR = Width<Type>::VECTOR_ELEMENTS };
    UNROLL
    for (int i = 0; i < ROWS; ++i)
        UNROLL
        for (int j = 0; j < COLUMNS; j += PIECE) {
            const u32 vector = Tile::vector_at(tile, at.row(i), at.column(j) / OF_VECTOR);
            store_shared(vector + at.column(j) % OF_VECTOR * sizeof(Element), stored<PIECE>(products, i, j, 1.0f));
        }
}

// Store the sums, each row times a factor, as rows from `first` on, features from `feature` on.
DEVICE void store_rows(const Rows &rows, const Place &at, int first, int feature, Sums &sums,
                       const float (&factors)[ROWS])
{
    enum { PIECE = Place::RESULT_PIECE };
    UNROLL
    for (int i = 0; i < ROWS; ++i) {
        if (first + at.row(i) >= rows.places) continue;
        Element *target = rows.first + (first + at.row(i)) * rows.pitch + feature;
        UNROLL
        for (int j = 0; j < COLUMNS; j += PIECE)
            *reinterpret_cast<Vector<Element, PIECE> *>(target + at.feature(j)) = stored<PIECE>(sums, i, j, factors[i]);
    }
}
