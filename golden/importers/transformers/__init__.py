"""Users' transformers as normal forms with their tensors; a model without a normal form is refused."""
