# %% [markdown]
# # The zeroth-order job in integers
#
# The core `zotrain` gives the same bits. First it tunes a network on drifted digits, then an autoencoder.

# %%
import numpy as np
import torch
from torch import nn

from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.datasets.tasks import task_of
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.importers.layers.network import imported
from fabtune.golden.models.text import preset
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.pretrain import Pretraining, pretrained
from fabtune.golden.train.zo.integer import IntegerZerothOrder
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.zo.step_settings import StepSettings

# %%
task, network = task_of("digits", drift="rotate:35"), preset("digits")
module, _ = pretrained(network, task.pretrain, Pretraining(epochs=5))
run = IntegerZerothOrder(
    network, folded(network, module), PezoSpec(), task.tune, Schedule(steps=50, batch=20), rate=5e-4
)
before = run.accuracy(task.test)
steps = run.run()  # of each step: position, coefficient, loss difference, probabilities of the labels
deltas = run.job.total  # all changes: 255 x 31 integers for a network of any size
assert deltas.shape == (255, 31)
assert np.abs(deltas).max() < 1 << 31
print(f"digits: {100 * before:.1f} % right before, {100 * run.accuracy(task.test):.1f} % after {len(steps)} steps")

# %% [markdown]
# The target of an autoencoder is the sample itself; labels do not count.

# %%
torch.manual_seed(0)
rng = np.random.default_rng(0)
values = (rng.normal(0, 1, (300, 3)) @ rng.normal(0, 0.6, (3, 20))).astype(np.float32)
samples = Samples(values, np.zeros(300, np.int64))
module = nn.Sequential(nn.Linear(20, 6), nn.ReLU(), nn.Linear(6, 20))
network, module = imported(module, (20,), "autoencoder")
run = IntegerZerothOrder(
    network,
    folded(network, module),
    PezoSpec(),
    samples,
    Schedule(steps=300, batch=20),
    rate=0.02,
    settings=StepSettings(loss="mse"),
)
before = run.error(samples)
run.run()
assert run.error(samples) < 0.8 * before
print(f"autoencoder: mean squared error {before:.3f} before, {run.error(samples):.3f} after")
