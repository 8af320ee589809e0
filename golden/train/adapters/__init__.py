"""Fine-tuning with adapters: methods, cost model, float engines and the integer job."""
