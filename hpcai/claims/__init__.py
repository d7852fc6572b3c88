"""Claims about raw measurements that several workloads share, by subject, each with its counterexample."""
