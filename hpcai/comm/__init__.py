"""Communication: MPI between all ranks, torch.distributed inside a group."""
