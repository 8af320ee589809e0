"""Fine-tuning by gradients, with adapters or without: methods, cost model, float engines and the integer engine."""
