"""Training data: datasets, bootstrap samplers, epoch order, staging and prefetching loaders."""
