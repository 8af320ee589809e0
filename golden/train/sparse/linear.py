"""Fully connected layer with sensitive weights in 16 bits and the others in NF4 (equations 11 and 17 to 26).

The NF4 part has the code for 0 at the positions of sensitive weights: the sum of both parts is the layer. The sensitive
values are one vector of float32 parameters, because a zeroth-order step is often below half a last place of a 16-bit
number. The forward pass and `to_linear` use the values rounded to 16 bits.

The weight is dequantised in groups of whole rows: besides the codes only one group is in memory.

Weights are quantised as in QLoRA and bitsandbytes: blocks of 64 in memory order, float32 scales. Levels, midpoints and
the rule for ties are those of `golden.nf4.codec`, which quantises Q8.16 integers in blocks of channels. This module
uses PyTorch, on any device.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from ...nf4.codec import CODES, MIDPOINTS
from .masks import Mask, linears

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class _RowGroup:
    """Rows of the weight that start and end at the border of an NF4 block, or at the end of the weight."""

    rows: slice
    blocks: slice
    start: int
    """Index of the first weight in memory order."""
    weights: int
    sensitive: slice
    """Range of the sensitive weights in the group."""


class SparseLinear(nn.Module):
    """Linear layer with tuned sensitive weights; all others are frozen.

    Parameters
    ----------
    linear : nn.Linear
        Not modified; the bias, frozen or not, is shared.
    indices : Tensor (k,) of int
        Ascending positions of the sensitive weights in the flattened weight.
    dtype : torch.dtype
        Type of the sensitive weights in the forward pass: float16, bfloat16, or float32 for comparisons.
    unpacked : bool
        Keep the dequantised weight in float32 too. For simulations: the output is the same bit for bit and much faster,
        but no memory is saved.

    Attributes
    ----------
    values : Parameter (k,) of float32
        The sensitive weights; the forward pass uses `sensitive`.
    codes, scales : Tensor
        The other weights, see `quantise`.

    Raises
    ------
    UserError
        If indices are not ascending or out of range, the type is unknown, or a sensitive weight is not finite in the
        type.
    """

    group_weights: ClassVar[int] = 1 << 20
    """Approximate number of weights of a row group."""
    few: ClassVar[int] = 4
    """Largest number of input rows for which `forward` uses `sparse_add_mm`.

    The paper uses `sparse_add_mm` for single tokens (figure 9). With more rows a CPU is slower, see docs/sparse.md.
    """

    indices: Tensor
    codes: Tensor
    scales: Tensor
    dense: Tensor | None

    def __init__(
        self, linear: nn.Linear, indices: Tensor, *, dtype: torch.dtype = torch.float16, unpacked: bool = False
    ) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.dtype = dtype
        self.unpacked = unpacked
        flat = linear.weight.detach().reshape(-1)
        self._check(flat, indices)
        positions = indices.to(flat.device, torch.int64)
        values = flat[positions].float()
        wrong = values[~values.to(dtype).isfinite()]
        if len(wrong):
            raise UserError(f"a sensitive weight is {wrong[0]:g}, not finite in {dtype}: use torch.bfloat16")
        codes, scales = quantise(flat.index_fill(0, positions, 0))
        self.values = nn.Parameter(values)
        self.bias = linear.bias
        self.register_buffer("indices", positions.int())
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("dense", None, persistent=False)
        self.register_load_state_dict_post_hook(_prepare)  # type: ignore[no-untyped-call]
        self._prepare()

    def _check(self, flat: Tensor, indices: Tensor) -> None:
        if self.dtype not in DTYPES:
            raise UserError(f"dtype = {self.dtype} is not one of {', '.join(map(str, DTYPES))}")
        if indices.dim() != 1 or not len(indices) or indices.is_floating_point() or indices.dtype == torch.bool:
            raise UserError(f"sensitive weights are given by integers (k,), not by {indices.dtype} {(*indices.shape,)}")
        if not 0 <= int(indices[0]) <= int(indices[-1]) < len(flat) or not (indices.diff() > 0).all():
            raise UserError(f"indices are not ascending within 0 to {len(flat) - 1}: sort them, each one once")
        if len(flat) >= 1 << 31:
            raise UserError(f"a layer of {len(flat)} weights is too large for 32-bit indices: split it")

    def _prepare(self) -> None:
        """Compute the row groups from indices and codes, and the dense weight if unpacked."""
        width = self.in_features
        # groups start at the border of a block
        step = BLOCK // gcd(BLOCK, width)
        rows = max(step, self.group_weights // width // step * step)
        starts = list(range(0, self.out_features, rows))
        borders = torch.tensor([*starts, self.out_features], device=self.indices.device) * width
        bounds: list[int] = torch.searchsorted(self.indices.long(), borders).tolist()
        self._groups = [
            _RowGroup(
                rows=slice(first, last),
                blocks=slice(first * width // BLOCK, -(-last * width // BLOCK)),
                start=first * width,
                weights=(last - first) * width,
                sensitive=slice(*bounds[number : number + 2]),
            )
            for number, first in enumerate(starts)
            for last in [min(first + rows, self.out_features)]
        ]
        if self.unpacked:
            self.dense = torch.cat([self._dequantised(group) for group in self._groups])

    # -- the parts -----------------------------------------------------------------------------------------------------

    @property
    def sensitive(self) -> Tensor:
        """Sensitive weights of the forward pass, (k,) of `dtype`."""
        return self.values.to(self.dtype)

    @property
    def weight(self) -> Tensor:
        """Complete weight, (out, in) of float32."""
        values = self.sensitive.float()
        return torch.cat([self._added(group, values) for group in self._groups])

    @torch.no_grad()
    def to_linear(self) -> nn.Linear:
        """Both parts merged into an `nn.Linear` in float32."""
        device = self.codes.device
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, device, torch.float32)
        linear.weight.copy_(self.weight)
        if self.bias is not None:
            linear.bias.copy_(self.bias)
        return linear

    def _dequantised(self, group: _RowGroup) -> Tensor:
        flat = dequantise(self.codes[group.blocks], self.scales[group.blocks])
        return flat[: group.weights].view(-1, self.in_features)

    def _added(self, group: _RowGroup, values: Tensor | None) -> Tensor:
        """Rows of the weight with these sensitive values; with 0 in their place if None."""
        if self.dense is None:
            weight = self._dequantised(group)
            if values is None:
                return weight
        else:
            weight = self.dense[group.rows]
            if torch.is_grad_enabled():
                # autograd may need the weight until the backward pass
                weight = weight.clone()
        positions = self.indices[group.sensitive].long() - group.start
        if values is None:
            weight.view(-1).index_fill_(0, positions, 0)
        else:
            weight.view(-1).index_copy_(0, positions, values[group.sensitive])
        return weight

    # -- the layer -----------------------------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer, (..., out) from (..., in), in the input's type.

        Up to `few` rows use `sparse_add_mm`, more rows use `sparse_add` (appendix C.6).
        """
        if x.numel() <= self.few * self.in_features:
            return self.sparse_add_mm(x)
        return self.sparse_add(x)

    def sparse_add(self, x: Tensor) -> Tensor:
        """Add the sensitive weights to the dequantised others, then multiply (equation 26)."""
        return self._product(x, self.sensitive.float())

    def sparse_add_mm(self, x: Tensor) -> Tensor:
        """Multiply by the dequantised weights, then add the product with the sensitive weights (equation 24)."""
        flat = x.reshape(-1, self.in_features)
        output = self._product(flat, None)
        positions = self.indices.long()
        rows, columns = positions // self.in_features, positions % self.in_features
        output = output.index_add(1, rows, flat[:, columns] * self.sensitive.to(x.dtype))
        return output.view(*x.shape[:-1], self.out_features)

    def _product(self, x: Tensor, values: Tensor | None) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        parts = [
            functional.linear(x, self._added(group, values).to(x.dtype), None if bias is None else bias[group.rows])
            for group in self._groups
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"sensitive={len(self.values)}, dtype={self.dtype}, unpacked={self.unpacked}"
        )


def _prepare(module: nn.Module, _: Any) -> None:
    """Hook after loading a state dict; a function and not a bound method, to work in a copy of the layer too."""
    assert isinstance(module, SparseLinear)
    module._prepare()


BLOCK = 64
"""Weights that share a scale, as in QLoRA."""
BLOCK_BYTES = BLOCK // 2 + 4
"""Bytes of a block: codes and a float32 scale."""
_CHUNK = 1 << 14
"""Blocks quantised at once: float64 thresholds take thirty times the memory of the codes."""
_MIDPOINTS = torch.from_numpy(MIDPOINTS).double()
_LEVELS = torch.from_numpy(CODES)
_PAIRS = torch.stack([_LEVELS.repeat_interleave(16), _LEVELS.repeat(16)], dim=1)
"""Levels of both codes of a byte: (256, 2)."""


def quantise(flat: Tensor) -> tuple[Tensor, Tensor]:
    """NF4 codes and scales of weights.

    Thresholds are compared exactly; a weight at a threshold gets the lower code. A block of zeros has scale 0, codes 0.
    The last block is padded with zeros.

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
    for start in range(0, len(blocks), _CHUNK):
        # a product of two float32 is exact in float64; the code is the number of thresholds below the weight
        borders = scales[start : start + _CHUNK, None].double() * midpoints
        chunk = torch.searchsorted(borders, blocks[start : start + _CHUNK].double()).to(torch.uint8)
        codes[start : start + _CHUNK] = chunk[:, ::2] << 4 | chunk[:, 1::2]
    return codes, scales


def dequantise(codes: Tensor, scales: Tensor) -> Tensor:
    """Level times scale in float32, as in bitsandbytes, (blocks * 64,).

    Codes are (blocks, 32) of uint8, scales (blocks,) of float32.
    """
    levels = functional.embedding(codes.int(), _PAIRS.to(codes.device))
    return levels.view(-1, BLOCK).mul_(scales[:, None]).view(-1)


def unpack(codes: Tensor) -> Tensor:
    """Codes one per byte, (blocks * 64,) of uint8 from (blocks, 32)."""
    return torch.stack([codes >> 4, codes & 15], dim=2).view(-1)


def sparsify(
    module: nn.Module, mask: Mask, *, dtype: torch.dtype = torch.float16, unpacked: bool = False
) -> list[nn.Parameter]:
    """Replace the layers in a mask by `SparseLinear`, freeze all other parameters, and return the sensitive weights.

    The module is changed in place, layer by layer, without memory for a second copy. A layer that occurs several times
    is replaced everywhere. The sensitive weights are in the order of the module's layers. `dtype` and `unpacked` are
    arguments of `SparseLinear`.

    Raises
    ------
    UserError
        If the mask is empty, or has a layer outside `masks.linears` or the module itself; the module then stays
        unchanged. Also as `SparseLinear` does.
    """
    layers = linears(module)
    if not mask:
        raise UserError("the mask has no layer: there would be nothing to tune")
    for name in mask:
        if name not in layers:
            raise UserError(f"{name!r} is not a linear layer with a weight of its own here: use a mask of this module")
        if not name:
            raise UserError("the module is a linear layer itself: use SparseLinear, or put it into an nn.Sequential")
    module.requires_grad_(False)
    tuned = []
    for name in [name for name in layers if name in mask]:
        # without a reference the layer's memory is free before the next layer
        layer = layers.pop(name)
        sparse = SparseLinear(layer, mask[name], dtype=dtype, unpacked=unpacked)
        _replace(module, layer, sparse.train(layer.training))
        tuned.append(sparse.values)
    return tuned


def densify(module: nn.Module) -> None:
    """Replace every `SparseLinear` by an `nn.Linear` in float32 that does not require gradients."""
    for layer in list(module.modules()):
        if isinstance(layer, SparseLinear):
            linear = layer.to_linear().requires_grad_(False)
            _replace(module, layer, linear.train(layer.training))


def _replace(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in module.modules():
        # `named_children` lists a repeated child once
        for name in [name for name, child in parent._modules.items() if child is old]:
            setattr(parent, name, new)
