# %% [markdown]
# # Zeroth order on a module of one's own
#
# Any `nn.Module` is tuned without back-propagation, with the perturbations that the hardware would draw. Nothing of the
# module has to be differentiable: here it rounds its activations.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.zo import PeZO


class Rounded(nn.Module):
    """Two layers with activations in steps of 1/16; the gradient through them is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of a batch, (n, 64) to (n, 10)."""
        hidden = torch.round(torch.relu(self.first(x)) * 16) / 16
        return self.second(hidden)


torch.manual_seed(0)
torch.set_num_threads(1)  # layers as small as these gain nothing from more
source = load_digits()
x, y = torch.tensor(source.images / 16, dtype=torch.float32), torch.tensor(source.target)
order = torch.randperm(len(x))
before, tune, test = order[:800], order[800:1300], order[1300:]
model = Rounded()

# %% [markdown]
# The module learns upright digits first, its last layer by gradients as usual. Then the camera is turned by a quarter.

# %%
adam = torch.optim.Adam(model.second.parameters(), lr=1e-2)
for _step in range(200):
    adam.zero_grad()
    cross_entropy(model(x[before].flatten(1)), y[before]).backward()
    adam.step()
turned = torch.rot90(x, dims=(1, 2)).flatten(1)


def accuracy() -> float:
    """Fraction of the turned test samples that are right."""
    with torch.no_grad():
        return (model(turned[test]).argmax(dim=1) == y[test]).float().mean().item()


# %% [markdown]
# The source of perturbations is the specification of the hardware generator: 31 LFSRs of 8 bits, on the fly. A step
# evaluates the loss on both sides of the parameters; the closure is called without gradients.

# %%
optimiser = PeZO(model.parameters(), source=PezoSpec(), lr=1e-2, eps=1e-2)
drifted = accuracy()
for _step in range(600):
    batch = tune[torch.randint(len(tune), (64,))]
    optimiser.step(lambda batch=batch: cross_entropy(model(turned[batch]), y[batch]))
tuned = accuracy()
print(f"turned digits right: {drifted:.1%} before, {tuned:.1%} after {_step + 1} steps")
assert tuned > drifted + 0.2

# %% [markdown]
# The whole state is one integer beside the parameters: the position where the next perturbation starts. A host, a
# federated client or a server that knows the position and the slopes rebuilds the same update, bit for bit.

# %%
print(f"next perturbation at position {optimiser.position}")
