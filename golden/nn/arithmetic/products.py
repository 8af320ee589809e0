"""Independent implementations of the exact integer matrix product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import UserError
from ...fixed import Integers, matmul

Product = Callable[[Integers, Integers], Integers]


def _int64(a: Integers, b: Integers) -> Integers:
    result: Integers = np.matmul(a, b)
    return result


def _torch(a: Integers, b: Integers) -> Integers:
    import torch

    product = torch.from_numpy(np.ascontiguousarray(a)) @ torch.from_numpy(np.ascontiguousarray(b))
    result: Integers = product.numpy()
    return result


def _cuda(a: Integers, b: Integers) -> Integers:
    # smaller matrices take longer to move than to compute
    return matmul(a, b, _on_gpu) if a.size * b.shape[-1] >= 1 << 24 else matmul(a, b)


def _on_gpu(a: Integers, b: Integers) -> Integers:
    import torch

    first, second = (torch.from_numpy(np.ascontiguousarray(one)).cuda().double() for one in (a, b))
    result: Integers = (first @ second).long().cpu().numpy()
    return result


PRODUCTS: dict[str, Product] = {"blas": matmul, "int64": _int64, "torch": _torch, "cuda": _cuda}
"""`blas`: float64 below 2**53, checked; `int64`: NumPy; `torch`: PyTorch's int64; `cuda`: large products on a GPU, else
`blas`."""


def fastest() -> str:
    """`cuda` if PyTorch finds a GPU, else `blas`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "blas"


def product_of(name: str) -> Product:
    """Implementation of a name."""
    if name not in PRODUCTS:
        raise UserError(f"there is no product {name!r}; there are: {', '.join(PRODUCTS)}")
    return PRODUCTS[name]
