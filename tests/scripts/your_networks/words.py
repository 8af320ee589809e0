"""Samples of four keywords, patterns in noise; the drifted samples are louder and later."""

import numpy as np
import torch
from mine import Net
from torch import nn

rng = np.random.default_rng(3)
words = rng.normal(0, 1, (4, 1, 16, 10))


def said(count, loudness, late):
    labels = rng.integers(0, 4, count)
    noise = rng.normal(0, 0.7, (count, 1, 16, 10))
    return (loudness * np.roll(words[labels], late, axis=2) + noise).astype(np.float32), labels


torch.manual_seed(0)
torch.set_num_threads(1)
samples, net = said(400, 1.0, 0), Net()
inputs, labels = map(torch.from_numpy, samples)
optimiser = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    for chosen in torch.randperm(len(inputs)).split(32):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs[chosen]), labels[chosen]).backward()
        optimiser.step()
torch.save(net.state_dict(), "mine.pt")
(x_tune, y_tune), (x_test, y_test) = said(200, 1.3, 3), said(300, 1.3, 3)
np.savez("mine.npz", x_tune=x_tune, y_tune=y_tune, x_test=x_test, y_test=y_test)
