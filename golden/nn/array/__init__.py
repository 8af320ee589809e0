"""A network on an array of multipliers: order of work, memories, images, cycles."""
