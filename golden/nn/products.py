"""Three ways to the same exact integer matrix product, so that none of them has to be believed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import UserError
from ..fixed import Integers, matmul

Product = Callable[[Integers, Integers], Integers]


def _int64(a: Integers, b: Integers) -> Integers:
    result: Integers = np.matmul(a, b)
    return result


def _torch(a: Integers, b: Integers) -> Integers:
    import torch

    product = torch.from_numpy(np.ascontiguousarray(a)) @ torch.from_numpy(np.ascontiguousarray(b))
    result: Integers = product.numpy()
    return result


PRODUCTS: dict[str, Product] = {"blas": matmul, "int64": _int64, "torch": _torch}
"""`blas`: float64, exact as long as no sum can reach 2**53, which is checked; `int64`: NumPy;
`torch`: PyTorch's int64."""


def product_of(name: str) -> Product:
    """The product of that name."""
    if name not in PRODUCTS:
        raise UserError(f"there are no products {name!r}; there are: {', '.join(PRODUCTS)}")
    return PRODUCTS[name]
