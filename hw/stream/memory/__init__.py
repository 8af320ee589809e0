"""RTL of the activation memory: chunk addresses, ports, and loaders from DRAM."""
