"""What is measured: one module a section of the input, each with run(case, ...) -> Measurement."""
