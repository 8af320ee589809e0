"""NF4 quantisation of a layer's weights as in QLoRA and bitsandbytes: blocks of 64 in memory order, float32 scales.

Levels, midpoints and the rule for ties are those of `golden.nf4.codec`, which quantises Q8.16 integers in blocks of
channels. Here everything is PyTorch, on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import UserError
from ...nf4.codec import CODES, MIDPOINTS

BLOCK = 64
"""Weights that share a scale, as in QLoRA."""
BLOCK_BYTES = BLOCK // 2 + 4
"""Bytes of a block: codes and a float32 scale."""
_CHUNK = 1 << 14
"""Blocks quantised at a time: float64 thresholds take thirty times the memory of the codes."""
_MIDPOINTS = torch.from_numpy(MIDPOINTS).double()
_LEVELS = torch.from_numpy(CODES)
_PAIRS = torch.stack([_LEVELS.repeat_interleave(16), _LEVELS.repeat(16)], dim=1)
"""Levels of both codes of a byte: (256, 2)."""


def quantise(flat: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise weights to codes and scales.

    Thresholds are compared exactly; a weight at a threshold gets the lower code. A block of zeros has scale 0, codes 0.

    Parameters
    ----------
    flat : Tensor (weights,)
        Floats; the last block is padded with zeros.

    Returns
    -------
    codes : Tensor (blocks, 32) of uint8
        Two codes per byte, the first in the high nibble.
    scales : Tensor (blocks,) of float32
        Largest magnitude of each block.

    Raises
    ------
    UserError
        If a weight is NaN or infinite in float32.
    """
    blocks = functional.pad(flat.detach().float(), (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1)
    if not scales.isfinite().all():
        raise UserError("a weight is NaN or infinite: it has no NF4 code; repair the model first")
    codes = torch.empty(len(blocks), BLOCK // 2, dtype=torch.uint8, device=flat.device)
    midpoints = _MIDPOINTS.to(flat.device)
    for at in range(0, len(blocks), _CHUNK):
        # a product of two float32 is exact in float64; the code is the number of thresholds below the weight
        borders = scales[at : at + _CHUNK, None].double() * midpoints
        chunk = torch.searchsorted(borders, blocks[at : at + _CHUNK].double()).to(torch.uint8)
        codes[at : at + _CHUNK] = chunk[:, ::2] << 4 | chunk[:, 1::2]
    return codes, scales


def dequantise(codes: Tensor, scales: Tensor) -> Tensor:
    """Dequantise: level times scale in float32, as in bitsandbytes, (blocks * 64,).

    Parameters
    ----------
    codes : Tensor (blocks, 32) of uint8
    scales : Tensor (blocks,) of float32
    """
    levels = functional.embedding(codes.int(), _PAIRS.to(codes.device))
    return levels.view(-1, BLOCK).mul_(scales[:, None]).view(-1)


def unpack(codes: Tensor) -> Tensor:
    """Unpack codes to one per byte: (blocks * 64,) of uint8 from (blocks, 32)."""
    return torch.stack([codes >> 4, codes & 15], dim=2).view(-1)
