"""Masks of sensitive weights: the largest squared gradients, layer by layer (definition 3, section 3.3).

The paper computes its mask once, before fine-tuning, from the language-model loss on generic text, and uses the mask
for every task. Its controls are a mask from the task's own loss and a random mask. All masks here are static.
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
"""Ascending flat indices into the weight, int64, by layer name."""


def linears(module: nn.Module) -> dict[str, nn.Linear]:
    """Fully connected layers by name, each with an unshared weight.

    A repeated layer has its first name. An output layer with the embedding's weight is left out: splitting the layer
    would break the sharing.
    """
    owners = Counter(id(weight) for layer in module.modules() for weight in layer.parameters(recurse=False))
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    return {name: layer for name, layer in layers.items() if owners[id(layer.weight)] == 1}


def count_of(weights: int, fraction: float) -> int:
    """Number of sensitive weights of a layer: the fraction, rounded half to even, at least one.

    Raises
    ------
    UserError
        If the fraction is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise UserError(f"fraction = {fraction} is not above 0 and at most 1; the paper's is 0.001")
    return max(1, round(fraction * weights))


def squared_gradients(module: nn.Module, losses: Iterable[Callable[[], Tensor]]) -> dict[str, Tensor]:
    """Sum over losses of the squared gradients of `linears`, float32 in the weights' shapes, by layer name.

    If each loss is the negative log likelihood of one sample, the sum is the diagonal of the empirical Fisher matrix
    times the number of samples (equation 8). With the mean over a batch as loss, the sum is that of squared mean
    gradients: less work, and the samples' common direction has more weight than their scatter.

    Losses are iterated once; each returns a scalar with a graph. A layer without influence on the losses has zeros. The
    module is not changed: no gradients remain, and `requires_grad` is restored. For no dropout and fixed batch norm the
    caller sets `eval()`.

    Raises
    ------
    UserError
        If the module has no linear layer, no loss is given, or a loss has no gradient or is not finite.
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
    before = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        yield
    finally:
        for weight, required in zip(weights, before, strict=True):
            weight.requires_grad_(required)


def sensitive(scores: dict[str, Tensor], fraction: float = 0.001) -> Mask:
    """Mask of the weights with the highest scores in each layer; among equal scores lower indices come first.

    Scores are `squared_gradients`, or magnitudes of the weights, the paper's "weight outliers". For `fraction` see
    `count_of`.

    Raises
    ------
    UserError
        If the fraction is out of range, a layer's scores are all 0, or a score is not finite.
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
    """Mask of as many random weights of each linear layer as `sensitive` selects: the paper's control.

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
    """Fraction of the weights of `a` that are also in `b`."""
    shared = sum(int(torch.isin(chosen, b[name]).sum()) for name, chosen in a.items() if name in b)
    return shared / sum(map(len, a.values()))


def coverage(scores: dict[str, Tensor], mask: Mask) -> dict[str, float]:
    """Share of each layer's squared gradient on the mask's weights (figures 2, 3 and 7 show its mean).

    Raises
    ------
    UserError
        If a layer of the mask has no scores, or only scores of 0.
    """
    shares = {}
    for name, chosen in mask.items():
        if name not in scores or not scores[name].any():
            raise UserError(f"layer {name!r} of the mask has no squared gradients: take losses that depend on it")
        flat = scores[name].detach().double().reshape(-1)
        shares[name] = float(flat[chosen].sum() / flat.sum())
    return shares
