"""[comm]: collectives of MPI and of the backend that trains."""
