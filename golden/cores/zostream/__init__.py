"""`zostream`: parameters, registers, device memory."""
