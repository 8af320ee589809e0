"""Parts that all areas use: FIFO, pipeline register, rounding, adder and multiplexer trees, address generator."""
