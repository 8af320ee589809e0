"""A network of a million weights, which the zeroth-order core `large` trains on the chip.

fabtune tune --method pezo-otf --core large --model docs/examples/large_network.py:build --data fashion-mnist ...
"""

from torch import nn


def build() -> nn.Sequential:
    """784-784-512-10: 1,022,490 weights and biases."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 784), nn.ReLU(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)
    )


if __name__ == "__main__":
    print(f"{sum(one.numel() for one in build().parameters()):,} weights and biases")
