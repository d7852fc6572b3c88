// Gradients: probabilities are computed again from the scores and the rows' logarithms (Dao et al., FlashAttention,
// 2022, algorithm 4). A block has a tile of keys and goes through the queries that see it, or a tile of queries and
// goes through the keys; so each sum belongs to one block, and has one order. Where there are several chunks of
// features, a block computes one chunk of the gradients, and scores from all of them.
#pragma once
#include "tiles.cuh"

// Means of the gradients of a row's probabilities: sums of the products of its output and the gradient of that. Lanes
// share a row, SIDE features at a time.
DEVICE void compute_means(const Parameters &p)
{
    enum { LANES = SIDE / 4 };
    typedef Vector<Element, 4> Four;
    const Rows out(p.out, p), gradient(p.gradient, p);
    for (int k = threadIdx.x / LANES; k < SIDE; k += THREADS / LANES) {
        const int row = blockIdx.y * SIDE + k, lane = threadIdx.x % LANES, own = row < p.places ? row : 0;
        float sum = 0.0f;
        for (int feature = 4 * lane; feature < p.chunks * SIDE; feature += SIDE) {
            const Four a = *reinterpret_cast<const Four *>(out.first + own * out.pitch + feature);
            const Four b = *reinterpret_cast<const Four *>(gradient.first + own * gradient.pitch + feature);
            UNROLL
            for (int i = 0; i < 4; ++i) sum += Type::taken(a.values[i]) * Type::taken(b.values[i]);
        }
        for (int apart = LANES / 2; apart > 0; apart /= 2) sum += shuffle(sum, threadIdx.x % 32 ^ apart);
        if (lane == 0 && row < p.places) p.means[static_cast<i64>(blockIdx.x) * p.places + row] = sum;
    }
}

// BY_KEYS: gradients of keys and values, with scores transposed, keys by queries; otherwise of queries. `one` and `two`
// are what the scores, and the gradients of the probabilities, are products of.
template <bool BY_KEYS> struct Gradients {
    enum { QUERIES = BY_KEYS ? COLUMNS : ROWS };  // of a lane
    const Parameters &p;
    const Place at;
    const u32 own_one, own_two, other_one, other_two, of_weights, of_rows;
    const int first, chunk;

    METHOD Gradients(const Parameters &p, u32 memory)
        : p(p), own_one(memory), own_two(memory + TILE), other_one(memory + 2 * TILE), other_two(memory + 3 * TILE),
          of_weights(memory + 4 * TILE), of_rows(memory + 5 * TILE),
          first((BY_KEYS ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * SIDE),  // those with most to do begin first
          chunk(blockIdx.z)
    {
    }

    // Copy a chunk of both tiles; the own one if it is not there. Begins and ends with a barrier.
    METHOD void load(int other, int from, bool own) const
    {
        const int feature = from * SIDE;
        sync_block();
        if (own) load_tile(own_one, Rows(BY_KEYS ? p.keys : p.queries, p), first, feature);
        if (own) load_tile(own_two, Rows(BY_KEYS ? p.values : p.gradient, p), first, feature);
        load_tile(other_one, Rows(BY_KEYS ? p.queries : p.keys, p), other, feature);
        load_tile(other_two, Rows(BY_KEYS ? p.gradient : p.values, p), other, feature);
        load_statistics(BY_KEYS ? other : first);
        commit_copies();
        wait_for_copies<0>();
        sync_block();
    }

    // Logarithm and mean of each query of a tile.
    METHOD void load_statistics(int query) const
    {
        const int row = query + threadIdx.x % SIDE;
        const bool there = row < p.places;
        const float *numbers = threadIdx.x < SIDE ? p.log_sums : p.means;
        numbers += static_cast<i64>(blockIdx.x) * p.places + (there ? row : 0);
        copy_async<4>(of_rows + threadIdx.x * sizeof(float), numbers, there);
    }

    // Logarithms or means of the queries of a lane, which are its columns or its rows.
    METHOD void read(float (&numbers)[QUERIES], int array) const
    {
        UNROLL
        for (int k = 0; k < QUERIES; ++k)
            numbers[k] = load_shared<float>(of_rows + (array * SIDE + (BY_KEYS ? at.column(k) : at.row(k))) * 4);
    }

    // Replace scores by probabilities, and the gradients of these by those of the scores.
    METHOD void finish(Products &scores, Products &gradients, bool masked) const
    {
        float log_sums[QUERIES], means[QUERIES];
        read(log_sums, 0);
        read(means, 1);
        UNROLL
        for (int i = 0; i < ROWS; ++i)
            UNROLL
            for (int j = 0; j < COLUMNS; ++j) {
                const int row = at.row(i), column = at.column(j), query = BY_KEYS ? j : i;
                const bool hidden = masked && (BY_KEYS ? row > column : column > row);
                float &score = Place::number(scores, i, j), &gradient = Place::number(gradients, i, j);
                const float power = power_of_two(score * p.scale_of_2 - log_sums[query]);
                score = hidden ? 0.0f : power;
                gradient = score * (gradient - means[query]);
            }
    }

    // Probabilities and gradients of the scores of the own tile and another. The own chunk of features is the last one,
    // so that it is in shared memory afterwards.
    METHOD void multiply(Products &scores, Products &gradients, int other, bool begin) const
    {
        for (int turn = 1; turn <= p.chunks; ++turn) {
            load(other, (chunk + turn) % p.chunks, begin || p.chunks > 1);
            at.multiply_rows(scores, own_one, other_one);
            at.multiply_rows(gradients, own_two, other_two);
        }
        finish(scores, gradients, other == first);
    }

    // sums += weights times the rows of a tile.
    METHOD void add(Sums &sums, Products &weights, u32 tile) const
    {
        store_weights(of_weights, at, weights);
        sync_block();
        at.add_weighted(sums, of_weights, tile);
    }

    METHOD void store(const Heads &array, Sums &sums, float factor) const
    {
        float factors[ROWS];
        UNROLL
        for (int i = 0; i < ROWS; ++i) factors[i] = factor;
        store_rows(Rows(array, p), at, first, chunk * SIDE, sums, factors);
    }

    METHOD void run() const
    {
        Sums of_one = at.sums(), of_values = at.sums();
        const int begin = BY_KEYS ? first : 0, end = BY_KEYS ? p.places : first + SIDE;
        for (int other = begin; other < end; other += SIDE) {
            Products scores = at.products(), gradients = at.products();
            multiply(scores, gradients, other, other == begin);
            if constexpr (BY_KEYS) {
                add(of_values, scores, other_two);
                sync_block();
            }
            add(of_one, gradients, other_one);
        }
        store(BY_KEYS ? p.of_keys : p.of_queries, of_one, p.scale);
        if constexpr (BY_KEYS) store(p.of_values, of_values, 1.0f);
    }
};
