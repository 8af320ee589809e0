"""What the tests of sparse layers share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors are small here, and other tests run beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
