"""Adapters to the last layer (LoRA): forward, backward, update, the forward cache and the integer job."""
