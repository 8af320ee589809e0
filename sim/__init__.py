"""cocotb benches, the simulator runner, formal proofs, and the comparison of captures with golden models."""
