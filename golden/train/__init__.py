"""Fine-tuning software: adapters, zeroth order, sparse, federated and few-shot text."""
