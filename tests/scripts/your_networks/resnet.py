"""A ResNet with batch norm on digits of 8 x 8 pixels: two blocks, the second with a stride and a shortcut."""

import torch
from torch import nn


class Block(nn.Module):
    """A residual block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        inner = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class Net(nn.Module):
    """Stem, two blocks, average pool, head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.layer1, self.layer2 = Block(8, 8, 1), Block(8, 16, 2)
        self.pool, self.head = nn.AvgPool2d(4), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.pool(self.layer2(self.layer1(self.stem(x)))).flatten(1))
