"""What the tests of sparse layers share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    """Layers are drawn alike, whatever ran before."""
    torch.manual_seed(0)
