"""Jupyter notebook for a core on a board with PYNQ: overlay, registers, self-test, one command by hand."""

from __future__ import annotations

import json

from ..example.job import Example
from ..selftest.job import SelfTest

_TITLE = """# {name} on PYNQ

Put this notebook into one folder of the board with `{name}.bit` and `{name}.hwh`, which Vivado's project writes to
`out/`, and with `fabtune_core.py`, `fabtune_core.json` and `selftest.bin`. Then run the cells in order."""
_LOAD = """Load the overlay. `fabtune_core` has to be imported before: it binds the driver to the core. An error here
says that the bitstream's core has another configuration than `fabtune_core.json`."""
_REGISTERS = "The registers by name, as the core has them after its reset."
_SELFTEST = """The self-test: a small job whose results golden has computed. It returns the names of its {count} stages,
or raises an error with the first stage whose bits are not golden's."""
_COMMAND = """One command by hand, `{command}`, on the memory that the self-test begins with. It returns the core's
counters, and the cycles of its clock that the command took."""
_EXAMPLE = """The example tunes a network on samples of {name}: {how}. It classifies {tested} held-out samples before
and after, and compares every logit with golden's, which says {before} before and {after} after. It needs
`example.bin`."""
_ERROR = "A command that cannot be is refused by the core itself: here an address between two beats of the bus."


def notebook(test: SelfTest, name: str, example: Example | None = None) -> str:
    """Notebook of a core in nbformat 4.5, without outputs.

    ``name`` is the name of the core's top module and of the files of Vivado's project.
    """
    addresses = [address.name for address in test.spec.registers.addresses]
    # the command to show by hand: the first that reads or writes memory
    first = next(stage for stage in test.stages if any(setting in addresses for setting in stage.settings))
    command, address = first.command.name.lower(), next(setting for setting in first.settings if setting in addresses)
    settings = ", ".join(
        f"{setting}=start + {value}" if setting in addresses else f"{setting}={value}"
        for setting, value in first.settings.items()
    )
    cells: list[str | list[str]] = [
        _TITLE.format(name=name),
        _LOAD,
        ["import fabtune_core", "from pynq import Overlay", "", f'core = Overlay("{name}.bit").core'],
        _REGISTERS,
        ["{name: hex(core.get(name)) for name in fabtune_core.CORE['registers']}"],
        _SELFTEST.format(count=len(test.stages)),
        ['core.selftest("selftest.bin")'],
        *_tuning(example),
        _COMMAND.format(command=command),
        [
            "import numpy as np",
            "from pynq import allocate",
            "",
            'image = np.fromfile("selftest.bin", np.uint8)',
            f"memory = allocate(shape=({test.size},), dtype=np.uint8)",
            "memory[: len(image)] = image",
            "memory.flush()",
            "start = int(memory.device_address)",
            f'core.run("{command}", {settings})',
        ],
        _ERROR,
        [
            "try:",
            f'    core.run("{command}", {address}=start + 8)',
            "except fabtune_core.FabtuneError as error:",
            "    print(error)",
        ],
    ]
    document = {
        "cells": [_cell(number, content) for number, content in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1) + "\n"


def _tuning(example: Example | None) -> list[str | list[str]]:
    if not example:
        return []
    before, after = example.percentages
    what = _EXAMPLE.format(how=example.how, tested=example.tested, name=example.data.name, before=before, after=after)
    return [what, ['core.example("example.bin")']]


def _cell(number: int, content: str | list[str]) -> dict[str, object]:
    text = content if isinstance(content, str) else "\n".join(content)
    cell: dict[str, object] = {"id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
    if isinstance(content, str):
        return {"cell_type": "markdown", **cell}
    return {"cell_type": "code", "execution_count": None, "outputs": [], **cell}
