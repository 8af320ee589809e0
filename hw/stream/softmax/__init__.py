"""RTL of attention: softmax weights and contexts."""
