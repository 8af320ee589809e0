"""Models of the activation memory: addresses of values, ports, and samples from DRAM."""
