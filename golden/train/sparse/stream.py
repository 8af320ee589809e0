"""Input words of the block `weight_path` for a sparse layer: NF4 codes, scales and sorted corrections.

In sensitive-sparse training only the few corrections are perturbed: they are streamed with eps z already added. The
packet's sign is 0, which switches off the block's perturbation of all weights.
"""

from __future__ import annotations

import numpy as np
import torch

from ...block import Words
from ...errors import UserError
from ...fixed import Q4_12
from ...zo.weight_path import SCALE, WeightPathSpec
from .linear import BLOCK, SparseLinear, unpack


@torch.no_grad()
def packet_of(layer: SparseLinear, spec: WeightPathSpec) -> dict[str, Words]:
    """Input words of `weight_path` for a layer, by stream: one unperturbed packet, the weight row by row.

    The block's output is Q4.12. A sensitive weight comes out as its `Q4_12.from_float`. Any other weight has three
    errors: half a last place for the scale's rounding to Q4.12, half a last place for the block's rounding, and scale /
    2**17 for the 16 fraction bits of the levels. Stream `u` has no words.

    Raises
    ------
    UserError
        If a weight is outside Q4.12, or the block's beats or index width do not fit the layer.
    """
    largest = max(float(layer.scales.max()), float(layer.sensitive.abs().max()))
    if largest > Q4_12.to_float(Q4_12.maximum):
        raise UserError(f"a weight is {largest:g} in magnitude, beyond Q4.12, which ends below 8")
    count = layer.in_features * layer.out_features
    codes = unpack(layer.codes)[:count].cpu().numpy()
    scales = SCALE.from_float(layer.scales.cpu().numpy())
    indices = layer.indices.cpu().numpy().astype(np.int64)
    values = Q4_12.from_float(layer.sensitive.float().cpu().numpy())
    words = spec.packet(codes, scales, BLOCK, indices, values, sign=0)
    none = {field.name: np.zeros((0, field.lanes), np.int64) for field in spec.streams()["u"].fields}
    return words | {"u": none}
