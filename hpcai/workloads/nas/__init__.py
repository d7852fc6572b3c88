"""[nas]: AIPerf's search for networks and hyper-parameters."""
