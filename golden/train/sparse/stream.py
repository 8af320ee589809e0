"""A layer as the hardware takes it: NF4 codes, scales and sorted corrections into `weight_path`.

In sensitive-sparse training only corrections are perturbed, and there are few of them: they are streamed with eps z
added, and the packet's sign is 0, so that the block's own perturbation, which is for all weights, stays out of it.
"""

from __future__ import annotations

import numpy as np
import torch

from ...block import Words
from ...errors import UserError
from ...fixed import Q4_12
from ...zo.weight_path import SCALE, WeightPathSpec
from .blocks import BLOCK, unpack
from .linear import SparseLinear


@torch.no_grad()
def packet_of(layer: SparseLinear, spec: WeightPathSpec) -> dict[str, Words]:
    """A layer's words for `weight_path`: one packet, its weight row by row, unperturbed.

    What comes out is Q4.12. A sensitive weight is what `Q4_12.from_float` makes of it. Any other differs from the
    layer's by the scale's rounding to Q4.12, half a last place at most, by the block's rounding, half a last place, and
    by scale / 2**17 for the levels' 16 fraction bits.

    Parameters
    ----------
    layer : SparseLinear
    spec : WeightPathSpec
        Of the block.

    Returns
    -------
    dict of str to Words
        Inputs of the block's streams; no words of `u` are needed.

    Raises
    ------
    UserError
        If a weight is outside Q4.12, or the block's beats or indices do not go with the layer.
    """
    largest = max(float(layer.scales.max()), float(layer.sensitive.abs().max()))
    if largest > Q4_12.to_float(Q4_12.maximum):
        raise UserError(f"a weight is {largest:g} in magnitude, which Q4.12 does not hold: below 8")
    count = layer.in_features * layer.out_features
    codes = unpack(layer.codes)[:count].cpu().numpy()
    scales = SCALE.from_float(layer.scales.cpu().numpy())
    indices = layer.indices.cpu().numpy().astype(np.int64)
    values = Q4_12.from_float(layer.sensitive.float().cpu().numpy())
    words = spec.packet(codes, scales, BLOCK, indices, values, sign=0)
    none = {field.name: np.zeros((0, field.lanes), np.int64) for field in spec.streams()["u"].fields}
    return words | {"u": none}
