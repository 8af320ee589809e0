"""Rules of the parts that all blocks are made of."""
