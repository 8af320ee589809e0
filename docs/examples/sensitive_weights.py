# %% [markdown]
# # Sensitive weights
#
# A machine with gradients chooses the weights to which the loss is most sensitive. The device tunes only these by
# zeroth order; all others have four bits.

# %%
import torch
from torch.nn.functional import cross_entropy

from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.sparse import densify, sensitive, sparsify, squared_gradients
from fabtune.golden.train.zo import PeZO

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 3)).eval()
generic = [(torch.randn(1, 64), torch.randint(3, (1,))) for _ in range(32)]

# %% [markdown]
# Once, with gradients: one loss for each sample. The mask has flat indices for each layer.

# %%
scores = squared_gradients(model, (lambda x=x, y=y: cross_entropy(model(x), y) for x, y in generic))
mask = sensitive(scores, fraction=0.01)

# %% [markdown]
# On the device, in place: sensitive weights in 16 bits, all others in NF4 and frozen.

# %%
params = sparsify(model, mask)
optimiser = PeZO(params, source=PezoSpec(), lr=0.1)
x, y = torch.randn(64, 64), torch.randint(3, (64,))
losses = [optimiser.step(lambda: cross_entropy(model(x), y)) for _ in range(100)]
print(f"{optimiser.weights.count} weights tuned, loss {float(losses[0]):.3f} to {float(losses[-1]):.3f}")
densify(model)  # back to nn.Linear, merged
