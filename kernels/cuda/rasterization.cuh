// Rasterization of tiles: bands of some rows of tiles, each from its first column on, so that concurrent blocks share
// operands in L2.
#pragma once
#include "ptx.cuh"

struct Rasterization {
    int down, across;    // tiles
    int parts;           // split-K parts
    int steps_of_part;   // a multiple of the steps of a line
    int band;            // rows of tiles of a band
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
