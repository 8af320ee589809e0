"""`zostream` on the host: jobs through its driver."""
