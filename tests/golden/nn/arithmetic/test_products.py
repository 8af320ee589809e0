"""Exact products of large matrices on a GPU."""

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import matmul
from fabtune.golden.nn.arithmetic.products import fastest, product_of


def test_unknown_product_is_refused():
    with pytest.raises(UserError, match="no product 'gpu'; there are: blas, int64, torch, cuda"):
        product_of("gpu")


def test_without_a_gpu_blas_is_fastest(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert fastest() == "blas"


@pytest.mark.parametrize("rows", [8, 512])
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
def test_gpu_computes_the_same_bits(rows):
    rng = np.random.default_rng(rows)
    a, b = rng.integers(-(1 << 23), 1 << 23, (rows, 1536)), rng.integers(-(1 << 17), 1 << 17, (1536, 384))
    found = product_of(fastest())(a, b)
    assert fastest() == "cuda"
    assert found.dtype == np.int64
    assert np.array_equal(found, product_of("int64")(a, b))
    assert np.array_equal(found, matmul(a, b))
