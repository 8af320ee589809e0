"""Models of the activation memory: places of values in it, its ports, and the samples that come from DRAM."""
