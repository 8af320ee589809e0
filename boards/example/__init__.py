"""Examples: fine-tuning of drifted digits on a core, as data for a C program."""
