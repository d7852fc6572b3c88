"""Examples of entries that fulfil every claim of their workload: one module each, with EXAMPLES by name."""
