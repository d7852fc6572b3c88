// Forward pass: a block has a tile of queries and goes through the tiles of keys that these see, with a running maximum
// and sum of each row (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 3). Where
// there are several chunks of features, a block computes one chunk of the output, and scores from all of them.
#pragma once
#include "tiles.cuh"

#define LOWEST -3.0e38f  // of a masked score, and the initial maximum: -inf minus itself would be NaN

// Maxima of the rows of a lane, and sums of its own columns' powers, which the lanes of a row add at the end.
struct Softmax {
    const Place &at;
    const u32 shared;  // a number of each row for each warp across
    float highest[ROWS], total[ROWS];

    METHOD Softmax(const Place &at, u32 shared) : at(at), shared(shared)
    {
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            highest[i] = LOWEST;
            total[i] = 0.0f;
        }
    }

    METHOD u32 cell(int i, int across) const { return shared + (across * SIDE + at.row(i)) * sizeof(float); }
    METHOD void show(int i, float number) const
    {
        if (at.first_of_row()) store_shared(cell(i, at.across), number);
    }

    // Scale the scores, and mask those of keys behind the query if the tile has some.
    METHOD void scale(Products &scores, float factor, bool masked) const
    {
        UNROLL
        for (int i = 0; i < ROWS; ++i)
            UNROLL
            for (int j = 0; j < COLUMNS; ++j) {
                const bool hidden = masked && at.column(j) > at.row(i);
                float &score = Place::number(scores, i, j);
                score = hidden ? LOWEST : score * factor;
            }
    }

    // Show the maxima of the warp's columns; a barrier must follow.
    METHOD void show_maxima(Products &scores) const
    {
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            float found = highest[i];
            UNROLL
            for (int j = 0; j < COLUMNS; ++j) found = fmaxf(found, Place::number(scores, i, j));
            found = fmaxf(found, shuffle(found, at.lane ^ Place::NEXT));
            show(i, fmaxf(found, shuffle(found, at.lane ^ 2 * Place::NEXT)));
        }
    }

    // Replace scores by powers of their differences to the new maximum, and rescale what was added up before.
    METHOD void advance(Products &scores, Sums &sums)
    {
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            float now = highest[i];
            UNROLL
            for (int across = 0; across < Place::ACROSS; ++across)
                now = fmaxf(now, load_shared<float>(cell(i, across)));
            const float factor = power_of_two(highest[i] - now);
            highest[i] = now;
            total[i] *= factor;
            UNROLL
            for (int j = 0; j < COLUMNS; ++j) {
                float &score = Place::number(scores, i, j);
                score = power_of_two(score - now);
                total[i] += score;
                Place::number(sums, i, j) *= factor;
            }
        }
    }

    // The sums over all columns; all threads must call it, after a barrier.
    METHOD void finish()
    {
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            total[i] += shuffle(total[i], at.lane ^ Place::NEXT);
            total[i] += shuffle(total[i], at.lane ^ 2 * Place::NEXT);
            show(i, total[i]);
            total[i] = 0.0f;
        }
        sync_block();
        UNROLL
        for (int i = 0; i < ROWS; ++i)
            for (int across = 0; across < Place::ACROSS; ++across) total[i] += load_shared<float>(cell(i, across));
    }
};

struct Forward {
    const Parameters &p;
    const u32 of_queries, of_keys, of_values, of_powers, of_rows;
    const Rows queries, keys, values;
    const int first, feature;

    METHOD Forward(const Parameters &p, u32 memory)
        : p(p), of_queries(memory), of_keys(memory + TILE), of_values(memory + 2 * TILE),
          of_powers(memory + 3 * TILE), of_rows(memory + 4 * TILE), queries(p.queries, p), keys(p.keys, p),
          values(p.values, p), first((gridDim.y - 1 - blockIdx.y) * SIDE),  // the longest rows begin first
          feature(blockIdx.z * SIDE)
    {
    }

    // Begin to copy a chunk of the keys from `key` on, if any query sees them, and of the queries unless it is there.
    METHOD void load(int key, int chunk) const
    {
        if (key > first) return;
        if (key == 0 || p.chunks > 1) load_tile(of_queries, queries, first, chunk * SIDE);
        load_tile(of_keys, keys, key, chunk * SIDE);
    }

    // Scores of the keys from `key` on. While they are multiplied their values are copied, and then the next keys.
    METHOD void multiply(Products &scores, const Softmax &softmax, int key) const
    {
        load_tile(of_values, values, key, feature);
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const bool last = chunk + 1 == p.chunks;
            commit_copies();       // the values, or nothing
            wait_for_copies<1>();  // queries and keys, which were copied before
            sync_block();
            softmax.at.multiply_rows(scores, of_queries, of_keys);
            if (last) {
                softmax.scale(scores, p.scale_of_2, key == first);
                softmax.show_maxima(scores);
            }
            sync_block();
            load(last ? key + SIDE : key, last ? 0 : chunk + 1);
            commit_copies();
        }
    }

    METHOD void run() const
    {
        const Place at;
        Softmax softmax(at, of_rows);
        Sums sums = at.sums();
        load(0, 0);
        commit_copies();
        for (int key = 0; key <= first; key += SIDE) {
            Products scores = at.products();
            multiply(scores, softmax, key);
            softmax.advance(scores, sums);
            store_weights(of_powers, at, scores);
            wait_for_copies<1>();  // the values
            sync_block();
            at.add_weighted(sums, of_powers, of_values);
            sync_block();
        }
        softmax.finish();
        store(softmax, sums);
    }

    METHOD void store(const Softmax &softmax, Sums &sums) const
    {
        const Place &at = softmax.at;
        float factors[ROWS];
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            const int row = first + at.row(i);
            factors[i] = 1.0f / softmax.total[i];
            if (feature == 0 && at.across == 0 && at.first_of_row() && row < p.places)
                p.log_sums[static_cast<i64>(blockIdx.x) * p.places + row] =
                    softmax.highest[i] + log2f(softmax.total[i]);
        }
        store_rows(Rows(p.out, p), at, first, feature, sums, factors);
    }
};
