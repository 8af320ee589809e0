"""The forward engine and its parts, layer blocks, softmax and loss gradient in RTL."""
