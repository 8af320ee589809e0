"""Choice of the PyTorch device."""

from __future__ import annotations

import torch


def default_device() -> torch.device:
    """The first CUDA GPU if PyTorch finds one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
