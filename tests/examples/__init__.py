"""Examples of entries that fulfil every claim of their workload: a module each, whose EXAMPLES have them by name."""
