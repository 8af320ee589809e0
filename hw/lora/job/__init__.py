"""Jobs of fine-tuning: batches, samples, records of the cache, parameters in and out."""
