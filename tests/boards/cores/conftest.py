"""Fixtures shared by tests of the cores' drivers."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest

from fabtune.boards.host.driver import Core


@pytest.fixture(params=["commands", "settings"])
def write_behind(request: pytest.FixtureRequest) -> Callable[[Core, Any, type[IntEnum], IntEnum], None]:
    """Make a driver repeat all commands, or all settings, right after one command."""

    def hurry(core: Core, registers: Any, commands: type[IntEnum], job: IntEnum) -> None:
        write = core.write
        too_early = {
            "commands": [("command", command) for command in reversed(commands)],
            "settings": [(name, 1) for name in registers.setting_names],
        }[request.param]

        def hurried(name: str, value: int) -> None:
            write(name, value)
            if (name, value) == ("command", job):
                for late, wrong in too_early:
                    write(late, wrong)

        core.write = hurried  # type: ignore[method-assign]

    return hurry
