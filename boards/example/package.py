"""Files of an example in a package, and what its README says about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...golden.cores.core import CoreSpec
from ...golden.cores.network_core import NetworkCoreSpec
from ..selftest.c_source import assembler_source
from .c_source import header
from .digits import KNOWN, digits_for
from .job import Example

SYSTEMS = ("linux", "baremetal")
_DRIVER = Path(__file__).parents[1] / "driver"


@cache
def example_of(spec: CoreSpec) -> Example | None:
    """Make the example of a core; None for one that has none, or has another network than those in `KNOWN`."""
    make = spec.part("boards", "example", "example")
    if make is None or not isinstance(spec, NetworkCoreSpec) or spec.network not in KNOWN:
        return None
    example: Example = make(spec, digits_for(spec.network))
    return example


def example_files(example: Example, system: str) -> dict[str, str | bytes]:
    """Make the example's folder for one of `SYSTEMS`: contents by file name."""
    sources = {name: _DRIVER / name for name in ("example.h", "example.c", f"example_{system}.c")}
    sources[f"example_{example.spec.name}.c"] = example.program
    files: dict[str, str | bytes] = {
        f"example/{name}": path.read_text(encoding="utf-8") for name, path in sources.items()
    }
    files |= {"example/digits.h": header(example), "example/digits.bin": example.memory.image.tobytes()}
    if system == "baremetal":
        files["example/digits_image.S"] = assembler_source("digits", example.memory)
    return files


def example_page(example: Example, systems: Sequence[str]) -> str:
    """Write the section of the README about the example for some of `SYSTEMS`."""
    parts = [_WHAT, *(_STEPS[name] for name in SYSTEMS if name in systems), _RESULT.replace("LINE", example.line)]
    return "\n\n".join(parts).replace("CORE", example.spec.name)


_WHAT = """\
A network has learnt digits as they are scanned; then the camera moved, and the core tunes the network on such images.
The core's commands and their settings are in `example/example_CORE.c`, the rest of the program is `example/example.c`:
a program of your own can begin with these."""
_STEPS = {
    "linux": """\
On Linux, where the self-test is right:

    sudo linux/example /dev/uioN udmabuf0 example/digits.bin         # made with linux/selftest""",
    "baremetal": """\
Without an operating system: a Vitis application as for the self-test, of `fabtune.c`, `fabtune_text.c` and
`fabtune_mmio.c` of `driver/`, and `example.c`, `example_CORE.c`, `example_baremetal.c` and `digits_image.S` of
`example/`.""",
}
_RESULT = """\
It prints

    example: LINE

with status 0; with status 1 where the core is right about another number of images than golden. The options and the
other statuses are those of the self-test; a command may take 60 s."""
