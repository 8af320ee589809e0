"""Few-shot text: tasks, and a pre-trained transformer with prompts as its head."""
