"""Fixtures for tests of sparse layers."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    """Seed PyTorch, so that layers do not depend on earlier tests."""
    torch.manual_seed(0)
