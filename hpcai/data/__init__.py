"""What the benchmark trains on: datasets, bootstrap samplers, epoch order and the prefetching loader."""
