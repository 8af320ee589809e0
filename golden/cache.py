"""Where fabtune keeps what it can rebuild."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Folder of compiled simulators, pre-trained networks and the like: ``$FABTUNE_CACHE``, else the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(os.environ.get("FABTUNE_CACHE", Path(home) / "fabtune"))
