"""cocotb benches, the simulator runner, and the comparison of captures with golden."""
