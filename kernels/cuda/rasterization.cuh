// In which order tiles of a product are computed: bands of some rows of tiles, each from its first column on, so that
// blocks that run at the same time share what they read.
#pragma once
#include "ptx.cuh"

struct Rasterization {
    int down, across;    // tiles
    int parts;           // of the steps of a sum, which are computed apart
    int steps_of_part;   // whole lines of steps
    int band;            // rows of tiles
};

struct Task {
    int down, across, part;
};

DEVICE int tasks(const Rasterization &raster) { return raster.down * raster.across * raster.parts; }

DEVICE Task task(const Rasterization &raster, int number)
{
    const int tiles = raster.down * raster.across, of_band = raster.band * raster.across;
    const int part = number / tiles, within = number % tiles, band = within / of_band * raster.band;
    const int rows = raster.down - band < raster.band ? raster.down - band : raster.band;
    const Task found = {band + within % of_band % rows, within % of_band / rows, part};
    return found;
}
