"""The machine of this rank: launcher, processors, devices, memory and software."""
