"""RTL of the stream engine: program execution on the datapath blocks."""
