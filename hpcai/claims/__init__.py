"""Claims about raw measurements shared by several workloads, each with its counterexample."""
