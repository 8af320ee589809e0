"""pytest plugin with the fixture `fabtune_core`, active wherever fabtune is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .packaged import PackagedCore


@pytest.fixture
def fabtune_core() -> Callable[..., PackagedCore]:
    """A package's core in the compiled simulator, with the host driver; see `packaged_core`.

    For example::

        def test_the_core_trains(fabtune_core):
            core = fabtune_core("build/packages/core-kv260")
            assert core.selftest()[-1] == "infer"
    """
    # imported only here, so that other sessions load nothing
    from .packaged import packaged_core

    return packaged_core
