# %% [markdown]
# # Networks of MLPerf Tiny
#
# The benchmark's ResNet for 10 classes of images, its depthwise separable network for keywords and its autoencoder for
# the sounds of machines, as plain PyTorch. `fabtune import docs/examples/mlperf_tiny.py:resnet8 --input 3x32x32`
# shows what each becomes. Paddings are those of TensorFlow's "same", which are not the same on all sides.

# %%
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from fabtune.golden.importers.layers.network import network_of
from fabtune.golden.models.network import deployed
from fabtune.golden.nn.array.mapping import Mapping


class Residual(nn.Module):
    """Two convolutions of 3 x 3, and a shortcut around them: of 1 x 1 where the size changes."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.shrinks = outputs > inputs
        self.first = nn.Conv2d(inputs, outputs, 3, 2 if self.shrinks else 1, 0 if self.shrinks else 1)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, 2) if self.shrinks else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions and the shortcut give."""
        padded = functional.pad(x, (0, 1, 0, 1)) if self.shrinks else x
        y = functional.relu(self.first_norm(self.first(padded)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


def resnet8() -> nn.Module:
    """Image classification: 3x32x32, 10 classes."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(Residual(16, 16), Residual(16, 32), Residual(32, 64)),
        *(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10)),
    )


def ds_cnn() -> nn.Module:
    """Keyword spotting: 1x49x10, 12 words."""
    layers: list[nn.Module] = [nn.ZeroPad2d((1, 1, 4, 5)), nn.Conv2d(1, 64, (10, 4), stride=2)]
    layers += [nn.BatchNorm2d(64), nn.ReLU(), nn.Dropout(0.2)]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
    layers += [nn.Dropout(0.4), nn.AvgPool2d((25, 5)), nn.Flatten(), nn.Linear(64, 12)]
    return nn.Sequential(*layers)


def autoencoder() -> nn.Module:
    """Anomaly detection: 640 values, which its outputs repeat."""
    sizes = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


# %% [markdown]
# Each becomes stages of the array, with batch norm folded. Cycles of a sample forward on 32 x 4 multipliers:

# %%
torch.manual_seed(0)
NETWORKS = {"resnet8": (resnet8, (3, 32, 32)), "ds_cnn": (ds_cnn, (1, 49, 10)), "autoencoder": (autoencoder, (640,))}
for name, (build, shape) in NETWORKS.items():
    network = deployed(network_of(build().eval(), shape, name))
    mapping = Mapping.of(network, lanes=32, columns=4)
    cycles, macs = mapping.cycles, sum(stage.macs for stage in network.stages)
    busy = macs / cycles / (mapping.lanes * mapping.columns)
    print(f"{name}: {network.parameters:,} parameters, {macs:,} MACs, {cycles:,} cycles, multipliers {busy:.0%} busy")
