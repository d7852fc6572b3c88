"""Who talks to whom: MPI between all ranks, torch.distributed inside a group."""
