"""What this rank runs on: its launcher, processors, device and software."""
