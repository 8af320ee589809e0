"""Users' transformers as normal forms, with their tensors; what has none is refused, and nothing is left out."""
