"""Search for networks and hyper-parameters as a workload (AIPerf: Ren et al., 2020, arXiv:2008.07141)."""
