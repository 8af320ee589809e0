"""The streaming core as data: size, schedule, program and weight stream of a network, cost."""
