"""Integer models of transformers with streamed weights."""
