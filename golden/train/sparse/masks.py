"""Which weights are sensitive: those with the largest squared gradients, layer by layer (definition 3, section 3.3).

The paper's mask comes from the language-model loss on generic text, once, before fine-tuning, and serves every task;
its controls are the same from the task's own loss, and a random one. All of them are static here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import UserError

Mask = dict[str, Tensor]
"""For each layer, by its name in the module, flat indices into its weight: int64, ascending."""


def linears(module: nn.Module) -> dict[str, nn.Linear]:
    """All fully connected layers with a weight of their own, by name; one in two places has the first of its names.

    An output layer that shares its weight with the embedding is not among them: in two parts it would have another.
    """
    owners = Counter(id(one) for layer in module.modules() for one in layer.parameters(recurse=False))
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    return {name: layer for name, layer in layers.items() if owners[id(layer.weight)] == 1}


def count_of(weights: int, fraction: float) -> int:
    """How many of a layer's weights are sensitive: a fraction, rounded half to even, and at least one.

    Raises
    ------
    UserError
        If the fraction is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise UserError(f"fraction = {fraction} is not above 0 and at most 1; the paper's is 0.001")
    return max(1, round(fraction * weights))


def squared_gradients(module: nn.Module, losses: Iterable[Callable[[], Tensor]]) -> dict[str, Tensor]:
    """The sum over losses of the squared gradient of the weight of every layer of `linears`.

    Where a loss is one sample's negative log likelihood this is the diagonal of the empirical Fisher matrix, times the
    number of samples (equation 8). Where it is the mean over a batch, it is the batches' squared mean gradients: less
    work, and the samples' common direction counts for more than their scatter.

    The module is as it was afterwards: no gradients are left, what requires gradients does or does not as before.
    Whether it trains is not touched either: without dropout and with fixed batch norm it is put on `eval()` before.

    Parameters
    ----------
    module : nn.Module
        Its parameters need not require gradients.
    losses : iterable of callable
        Each gives a scalar, computed with gradients. A generator is read once.

    Returns
    -------
    dict of str to Tensor, the shape of the weight, of float32
        By the layer's name. A layer that no loss depends on has zeros. Drop what shall not be masked.

    Raises
    ------
    UserError
        If there is no linear layer or no loss, or a loss has no gradient or is not finite.
    """
    layers = linears(module)
    if not layers:
        raise UserError("the module has no linear layer with a weight of its own to choose from")
    weights: list[Tensor] = [layer.weight for layer in layers.values()]
    totals = {name: torch.zeros_like(layer.weight, dtype=torch.float32) for name, layer in layers.items()}
    count = 0
    with _requiring(weights), torch.enable_grad():
        for loss in losses:
            value = loss()
            if not value.requires_grad:
                raise UserError(f"loss {count} has no gradient: compute it without torch.no_grad or detach")
            if not value.isfinite():
                raise UserError(f"loss {count} is {value.item()}: leave such samples out")
            gradients = torch.autograd.grad(value, weights, allow_unused=True)
            for total, gradient in zip(totals.values(), gradients, strict=True):
                if gradient is not None:
                    total.addcmul_(gradient, gradient)  # squared in float32, whatever the gradient's type
            count += 1
    if not count:
        raise UserError("there is no loss to take gradients of: give one for each sample or batch")
    return totals


@contextmanager
def _requiring(weights: list[Tensor]) -> Iterator[None]:
    before = [one.requires_grad for one in weights]
    try:
        for one in weights:
            one.requires_grad_(True)
        yield
    finally:
        for one, required in zip(weights, before, strict=True):
            one.requires_grad_(required)


def sensitive(scores: dict[str, Tensor], fraction: float = 0.001) -> Mask:
    """The weights with the highest scores, so many of each layer; among equals those with the lower index.

    Parameters
    ----------
    scores : dict of str to Tensor
        By layer: `squared_gradients`; or the weights' magnitudes, the paper's "weight outliers".
    fraction : float
        Of a layer's weights, see `count_of`.

    Raises
    ------
    UserError
        If the fraction is out of range, or a layer's scores are all 0, infinite or no numbers.
    """
    mask = {}
    for name, score in scores.items():
        flat = score.detach().reshape(-1)
        count = count_of(flat.numel(), fraction)
        if not flat.isfinite().all():
            raise UserError(f"layer {name!r} has a score that is not finite: take float32 losses, or fewer at a time")
        if not flat.any():
            raise UserError(f"layer {name!r} has scores of 0 only: no loss depends on it; drop it from the scores")
        least = flat.topk(count).values[-1]
        above = (flat > least).nonzero().view(-1)
        equal = (flat == least).nonzero().view(-1)[: count - len(above)]
        mask[name] = torch.cat([above, equal]).sort().values
    return mask


def random_mask(module: nn.Module, fraction: float = 0.001, seed: int = 0) -> Mask:
    """As many weights of each linear layer as `sensitive` takes, chosen at random: the paper's control.

    Raises
    ------
    UserError
        If the fraction is out of range, or the seed negative.
    """
    if seed < 0:
        raise UserError(f"seed = {seed} is negative")
    mask = {}
    for number, (name, layer) in enumerate(linears(module).items()):
        count = layer.weight.numel()
        chosen = np.random.default_rng([seed, number]).choice(count, count_of(count, fraction), replace=False)
        mask[name] = torch.from_numpy(np.sort(chosen)).to(layer.weight.device)
    return mask


def overlap(a: Mask, b: Mask) -> float:
    """Which share of a's weights is in b; a layer that b does not have has none."""
    shared = sum(int(torch.isin(chosen, b[name]).sum()) for name, chosen in a.items() if name in b)
    return shared / sum(map(len, a.values()))


def coverage(scores: dict[str, Tensor], mask: Mask) -> dict[str, float]:
    """Which share of each layer's squared gradient lies on the mask's weights (figures 2, 3 and 7; there the mean).

    Raises
    ------
    UserError
        If the mask has a layer without scores, or one whose scores are all 0.
    """
    shares = {}
    for name, chosen in mask.items():
        if name not in scores or not scores[name].any():
            raise UserError(f"layer {name!r} of the mask has no squared gradients: take losses that depend on it")
        flat = scores[name].detach().double().reshape(-1)
        shares[name] = float(flat[chosen].sum() / flat.sum())
    return shares
