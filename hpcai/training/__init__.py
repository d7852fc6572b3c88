"""What the workloads that train share: groups, stages, totals over the ranks."""
