"""Model of the engine that runs programs: its blocks, whose sizes follow from those of a core."""
