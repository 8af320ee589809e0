"""Common components: FIFOs, memories, pipelines, registers, rounding, adder and multiplexer trees."""
