// In which order tiles of a product are computed: bands of some rows of tiles, each from its first column on, so that
// blocks that run at the same time share what they read.
#pragma once
#include "ptx.cuh"

struct Order {
    int down, across;    // tiles
    int parts;           // of the steps of a sum, which are computed apart
    int steps_of_part;   // whole lines of steps
    int band;            // rows of tiles
};

struct Task {
    int down, across, part;
};

WORD int tasks(const Order &order) { return order.down * order.across * order.parts; }

WORD Task task(const Order &order, int number)
{
    const int tiles = order.down * order.across, of_band = order.band * order.across;
    const int part = number / tiles, within = number % tiles, band = within / of_band * order.band;
    const int rows = order.down - band < order.band ? order.down - band : order.band;
    const Task found = {band + within % of_band % rows, within % of_band / rows, part};
    return found;
}
