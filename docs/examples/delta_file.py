# %% [markdown]
# # A delta file
#
# All updates of a zeroth-order run in integers have one short sum. Added to the base it gives every bit of the result.

# %%
import torch
from torch.nn.functional import cross_entropy

from fabtune.golden.fixed import Format
from fabtune.golden.train.zo import ZerothOrder
from fabtune.golden.train.zo.delta_file import Delta, base_digest
from fabtune.golden.train.zo.methods import integer_source_of

torch.manual_seed(0)
model, x, y = torch.nn.Linear(8, 3), torch.randn(64, 8), torch.randint(3, (64,))
base = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
source, format, moves = integer_source_of("otf8"), Format(4, 28), []
optimiser = ZerothOrder(model.parameters(), source, lr=1e-2, format=format)
for _ in range(20):
    optimiser.step(lambda: cross_entropy(model(x), y))
    moves += optimiser.moves  # (position, coefficient) of each query

# %%
delta = Delta.of(base, base_digest(base), source, format, moves)
assert torch.equal(delta.applied(base)["weight"], model.weight)
print(f"{len(moves)} steps, equal in every bit after one pass")
