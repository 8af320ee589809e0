"""Plugin of pytest with the fixture `fabtune_core`; pytest finds it where fabtune is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .packaged import PackagedCore


@pytest.fixture
def fabtune_core() -> Callable[..., PackagedCore]:
    """Make the core of a package in the compiled simulation, with the host driver; see `packaged_core`.

    For example::

        def test_the_core_trains(fabtune_core):
            core = fabtune_core("build/packages/core-kv260")
            assert core.selftest()[-1] == "infer"
    """
    # of a session without such a test nothing is loaded
    from .packaged import packaged_core

    return packaged_core
