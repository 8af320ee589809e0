"""Fine-tuning jobs: schedulers, records of the cache, parameter transfer."""
