"""Importers of language models: folders of the library `transformers`, and GGUF files."""
