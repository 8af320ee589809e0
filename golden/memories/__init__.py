"""On-chip memories: kinds of RAM, and the plan that assigns a kind to each memory of a block."""
