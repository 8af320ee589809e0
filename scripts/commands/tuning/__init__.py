"""Commands on networks and their fine-tuning."""
