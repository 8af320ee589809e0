# %% [markdown]
# # Own encoder in integers
#
# A transformer of one's own becomes the hardware's integers: PyTorch's encoder with a head, exported, imported, and
# converted to a frozen base of 4-bit codes. Then zeroth order tunes it, with all arithmetic in integers.

# %%
import numpy as np
import torch
from torch import nn

from fabtune.golden.fixed import Q8_16
from fabtune.golden.importers.transformers.own_model import transformer_of
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.transformer_model import TransformerModel
from fabtune.golden.train.metrics import cross_entropy
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.step_settings import StepSettings


class Classifier(nn.Module):
    """Encoder of rows of 32 features, and a head of two classes on the mean of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of samples of (tokens, features)."""
        return self.head(self.body(x).mean(dim=1))


# %% [markdown]
# The twenty lines: import, convert, tune. Samples are 8 tokens, and the mean of their features says the class.

# %%
torch.manual_seed(0)
module = Classifier().eval()
network, parameters = transformer_of(module, (8, 32), "own").builder.finish()
base = frozen_base(network, parameters, "nf4")
model = TransformerModel(base.transformer, base.integers, times=255)

random = np.random.default_rng(0)
labels = random.integers(0, 2, 64)
samples = (random.normal(0, 1, (64, 8, 32)) + (labels[:, None, None] - 0.5)).astype(np.float32)
rows = Q8_16.from_float(samples)

source, steps = build(PezoSpec, [], "otf8"), 40
rates, settings = StepSettings().with_rates([5e-4] * steps, [32] * steps, PerturbationTable(source))
job = ZerothOrderJob(model, source, settings)
untuned = job.logits(rows) / 2**16
for rate in rates:
    chosen = random.permutation(len(labels))[:32]
    job.step(rows[chosen], labels[chosen], rate)

# %% [markdown]
# What the integers are of the floats before tuning, and what a run of 40 steps did:

# %%
with torch.no_grad():
    exact = module(torch.from_numpy(samples)).numpy()
losses = [cross_entropy(one, labels) for one in (untuned, job.logits(rows) / 2**16)]
print(f"{len(network.operations)} operations, {sum(one.size for one in parameters.values()):,} parameters")
print(f"matrices in NF4 up to {100 * max(base.errors.values()):.1f} % off, logits {np.abs(untuned - exact).max():.3f}")
print(f"loss {losses[0]:.3f} before, {losses[1]:.3f} after {steps} steps; {job.saturations} values clipped")
print(f"{model.words} words, whose deltas are 255 x 31 numbers of 4 bytes")
assert losses[1] < losses[0]
assert np.abs(untuned - exact).max() < 0.5
