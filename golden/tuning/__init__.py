"""Fine-tuning: the methods, what they cost, the float engine and the integer job."""
