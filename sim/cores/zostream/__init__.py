"""`zostream`: jobs and tuning on the compiled core."""
