"""Parse captures from boards and simulators, and compare them with golden models."""
