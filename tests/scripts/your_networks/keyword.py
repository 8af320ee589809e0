"""Keyword network: depthwise separable convolutions on spectrograms of 16 frames of 10 coefficients."""

from torch import nn


def part(inputs, outputs, kernel, **settings):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, **settings), nn.BatchNorm2d(outputs), nn.ReLU())


class Net(nn.Module):
    """A strided, a depthwise and a pointwise convolution, average pool, head."""

    def __init__(self):
        super().__init__()
        self.stem = part(1, 16, (5, 3), stride=2, padding=(2, 1))
        self.depthwise, self.pointwise = part(16, 16, 3, padding=1, groups=16), part(16, 16, 1)
        self.pool, self.head = nn.AvgPool2d((8, 5)), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.pool(self.pointwise(self.depthwise(self.stem(x)))).flatten(1))
