"""Kernels: what each computes, how much, how exactly, and the providers that compute it. Imported as hpcai.kernels."""
