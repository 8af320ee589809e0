"""Networks as users write them, shared by many tests: a class with named submodules, a ResNet, a perceptron."""

import torch
from torch import nn
from torch.nn import functional


class Convolutional(nn.Module):
    """Named submodules, batch norm, a layer without bias, and a functional call."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.MaxPool2d(2))
        self.hidden = nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(8, eps=1e-3)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.deep(self.stem(x)).flatten(1)
        return self.head(torch.relu(self.norm(functional.linear(x, self.hidden.weight, self.hidden.bias))))


class Residual(nn.Module):
    """A basic block with strides and a shortcut, and a batch norm that cannot be folded."""

    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.one, self.bn1 = nn.Conv2d(4, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6)
        self.two, self.bn2 = nn.Conv2d(6, 6, 3, 1, 1, bias=False), nn.BatchNorm2d(6)
        self.shortcut = nn.Sequential(nn.Conv2d(4, 6, 1, 2, bias=False), nn.BatchNorm2d(6))
        self.last, self.fc = nn.BatchNorm2d(6), nn.Linear(6, 3)

    def forward(self, x):
        x = torch.relu(self.bn(self.stem(x)))
        y = self.bn2(self.two(torch.relu(self.bn1(self.one(x)))))
        x = torch.relu(self.last(torch.relu(y + self.shortcut(x))))
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def perceptron():
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8, affine=False), nn.ReLU(), nn.Linear(8, 3))


def drawn(make, seed=0):
    """A module with random weights and atypical batch-norm statistics."""
    torch.manual_seed(seed)
    module = make().eval()
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean)
            nn.init.uniform_(layer.running_var, 0.1, 3)
            if layer.affine:
                nn.init.normal_(layer.weight)
                nn.init.normal_(layer.bias)
    return module


SHAPES = {Convolutional: (1, 8, 8), Residual: (1, 8, 8), perceptron: (64,)}
"""Modules and their sample shapes; each has 3 classes."""
