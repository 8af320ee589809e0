"""RTL of the activation memory: walks over places of values, its ports, and the samples that come from DRAM."""
