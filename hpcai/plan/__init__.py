"""Plan of a run: memory and time of each test, before it starts."""
