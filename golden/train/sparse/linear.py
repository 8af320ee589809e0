"""A fully connected layer in two parts: sensitive weights in 16 bits, the rest in NF4 (equations 11 and 17 to 26).

The rest has the code for 0 where a sensitive weight stands, so that added together the parts are the layer. What is
tuned are the sensitive values, one vector, in float32: a step of zeroth order is often below half a last place of
a 16-bit number, and would leave it where it is. The forward pass sees them rounded to 16 bits, and so does whoever gets
the layer: nothing else of it depends on the float32.

The weight is made tile by tile, some whole rows at a time: beside the codes only a tile is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import UserError
from .blocks import BLOCK, dequantise, quantise

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class _Tile:
    """Rows of the weight, which start and, but for the last row, end with a block."""

    rows: slice
    blocks: slice
    start: int
    """Of its first weight, in the order of memory."""
    weights: int
    sensitive: slice
    """Those of the sensitive weights that lie in it."""


class SparseLinear(nn.Module):
    """A linear layer of which only sensitive weights are parameters that can be tuned.

    Parameters
    ----------
    linear : nn.Linear
        Stays as it is; its bias, frozen or not, is shared.
    indices : Tensor (k,) of int
        Of the sensitive weights, in the flattened weight: ascending.
    dtype : torch.dtype
        Of the sensitive weights in the forward pass: float16, bfloat16, or float32 for comparisons.
    unpacked : bool
        Also keep the dequantised weight in float32, and write the sensitive values into it at every pass. The same
        output to the bit and much faster, for simulations: no memory is saved.

    Attributes
    ----------
    values : Parameter (k,) of float32
        The sensitive weights; what the forward pass sees is `sensitive`.
    indices : Tensor (k,) of int32
    codes, scales : Tensor
        The rest, see `blocks.quantise`.
    bias : Parameter (out,), or None

    Raises
    ------
    UserError
        If the indices are not ascending or name no weight, the type is another, or a weight is not finite in it.
    """

    tile: ClassVar[int] = 1 << 20
    """Weights of a tile, about."""
    few: ClassVar[int] = 4
    """Up to so many rows of input go through `sparse_add_mm`.

    The paper does so with single tokens (figure 9). On a CPU it is as fast up to here, slower beyond: docs/sparse.md.
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
        places = indices.to(flat.device, torch.int64)
        values = flat[places].float()
        wrong = values[~values.to(dtype).isfinite()]
        if len(wrong):
            raise UserError(f"a sensitive weight is {wrong[0]:g}, not finite in {dtype}: take torch.bfloat16")
        codes, scales = quantise(flat.index_fill(0, places, 0))
        self.values = nn.Parameter(values)
        self.bias = linear.bias
        self.register_buffer("indices", places.int())
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("dense", None, persistent=False)
        self.register_load_state_dict_post_hook(_prepare)  # type: ignore[no-untyped-call]
        self._prepare()

    def _check(self, flat: Tensor, indices: Tensor) -> None:
        if self.dtype not in DTYPES:
            raise UserError(f"dtype = {self.dtype} is not one of {', '.join(map(str, DTYPES))}")
        if indices.dim() != 1 or not len(indices) or indices.is_floating_point() or indices.dtype == torch.bool:
            raise UserError(f"sensitive weights are named by integers (k,), not by {indices.dtype} {(*indices.shape,)}")
        if not 0 <= int(indices[0]) <= int(indices[-1]) < len(flat) or not (indices.diff() > 0).all():
            raise UserError(f"indices are not ascending within 0 to {len(flat) - 1}: sort them, each one once")
        if len(flat) >= 1 << 31:
            raise UserError(f"a layer of {len(flat)} weights is too large for 32-bit indices: split it")

    def _prepare(self) -> None:
        """Derive what follows from indices and codes."""
        width = self.in_features
        # tiles start with a block
        step = BLOCK // gcd(BLOCK, width)
        rows = max(step, self.tile // width // step * step)
        starts = list(range(0, self.out_features, rows))
        borders = torch.tensor([*starts, self.out_features], device=self.indices.device) * width
        places: list[int] = torch.searchsorted(self.indices.long(), borders).tolist()
        self._tiles = [
            _Tile(
                rows=slice(first, last),
                blocks=slice(first * width // BLOCK, -(-last * width // BLOCK)),
                start=first * width,
                weights=(last - first) * width,
                sensitive=slice(*places[number : number + 2]),
            )
            for number, first in enumerate(starts)
            for last in [min(first + rows, self.out_features)]
        ]
        if self.unpacked:
            self.dense = torch.cat([self._dequantised(tile) for tile in self._tiles])

    # -- the parts -----------------------------------------------------------------------------------------------------

    @property
    def sensitive(self) -> Tensor:
        """The sensitive weights as they are seen and handed on: (k,) of `dtype`."""
        return self.values.to(self.dtype)

    @property
    def weight(self) -> Tensor:
        """The whole weight: (out, in) of float32."""
        values = self.sensitive.float()
        return torch.cat([self._added(tile, values) for tile in self._tiles])

    @torch.no_grad()
    def to_linear(self) -> nn.Linear:
        """The same layer as one weight, in float32; to merge what was tuned."""
        device = self.codes.device
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, device, torch.float32)
        linear.weight.copy_(self.weight)
        if self.bias is not None:
            linear.bias.copy_(self.bias)
        return linear

    def _dequantised(self, tile: _Tile) -> Tensor:
        flat = dequantise(self.codes[tile.blocks], self.scales[tile.blocks])
        return flat[: tile.weights].view(-1, self.in_features)

    def _added(self, tile: _Tile, values: Tensor | None) -> Tensor:
        """A tile of the weight with these sensitive values, or with 0. In the rest it is 0: to add is to write."""
        if self.dense is None:
            weight = self._dequantised(tile)
            if values is None:
                return weight
        else:
            weight = self.dense[tile.rows]
            if torch.is_grad_enabled():
                # a graph may hold it until its backward pass
                weight = weight.clone()
        places = self.indices[tile.sensitive].long() - tile.start
        if values is None:
            weight.view(-1).index_fill_(0, places, 0)
        else:
            weight.view(-1).index_copy_(0, places, values[tile.sensitive])
        return weight

    # -- the layer -----------------------------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output: (..., out) from (..., in), in the input's type.

        Many rows go through `sparse_add`, few through `sparse_add_mm`: appendix C.6.
        """
        if x.numel() <= self.few * self.in_features:
            return self.sparse_add_mm(x)
        return self.sparse_add(x)

    def sparse_add(self, x: Tensor) -> Tensor:
        """The sensitive weights are added to the dequantised rest, then one product (equation 26)."""
        return self._product(x, self.sensitive.float())

    def sparse_add_mm(self, x: Tensor) -> Tensor:
        """The product with the dequantised rest, to which the sparse one is added (equation 24)."""
        flat = x.reshape(-1, self.in_features)
        output = self._product(flat, None)
        places = self.indices.long()
        rows, columns = places // self.in_features, places % self.in_features
        output = output.index_add(1, rows, flat[:, columns] * self.sensitive.to(x.dtype))
        return output.view(*x.shape[:-1], self.out_features)

    def _product(self, x: Tensor, values: Tensor | None) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        parts = [
            functional.linear(x, self._added(tile, values).to(x.dtype), None if bias is None else bias[tile.rows])
            for tile in self._tiles
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def extra_repr(self) -> str:
        """What a module's ``repr`` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"sensitive={len(self.values)}, dtype={self.dtype}, unpacked={self.unpacked}"
        )


def _prepare(module: nn.Module, _: Any) -> None:
    """After a state was loaded; a function, so that a copy of a layer prepares itself."""
    assert isinstance(module, SparseLinear)
    module._prepare()
