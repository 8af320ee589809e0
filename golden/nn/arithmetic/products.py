"""Three independent implementations of the exact integer matrix product, which check each other."""

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


PRODUCTS: dict[str, Product] = {"blas": matmul, "int64": _int64, "torch": _torch}
"""`blas`: float64, exact as long as no sum can reach 2**53, which is checked; `int64`: NumPy;
`torch`: PyTorch's int64."""


def product_of(name: str) -> Product:
    """Look up an implementation by name."""
    if name not in PRODUCTS:
        raise UserError(f"there is no product {name!r}; there are: {', '.join(PRODUCTS)}")
    return PRODUCTS[name]
