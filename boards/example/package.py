"""Files of an example in a package, and its section of the README."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...golden.cores.core import CoreSpec
from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.errors import UserError
from ..selftest.c_source import assembler_source
from .c_source import header
from .digits import KNOWN, digits_for
from .job import Example
from .sentence_task import SentenceTask
from .task import MOST_MEMORY, ExampleTask

Task = ExampleTask | SentenceTask
"""Input of a core's jobs: a network of layers and samples, or a transformer and sentences."""
SYSTEMS = ("linux", "baremetal")
_DRIVER = Path(__file__).parents[1] / "driver"


@cache
def example_of(spec: CoreSpec, task: Task | None = None) -> Example | None:
    """Make the example of a core; None if the core has no example, too little room, or an unknown network and no task.

    Parameters
    ----------
    spec : CoreSpec
    task : ExampleTask or SentenceTask, optional
        The user's network and samples; by default digits, for the networks in `KNOWN`. A core without a fixed network
        brings its own network.

    Raises
    ------
    UserError
        If the core cannot run the task, or its memory exceeds `MOST_MEMORY`.
    """
    if isinstance(task, SentenceTask):
        return _in_memory(_of_sentences(spec, task), task)
    make = spec.part("boards", "example", "example")
    if make is None or not isinstance(spec, NetworkCoreSpec):
        if task:
            raise UserError(f"{spec.name} has no example of a network of yours: leave --data out")
        own: Example | None = make(spec) if make else None
        return own
    if task is None:
        if spec.network not in KNOWN:
            return None
        task = digits_for(spec.network)
    task.check(spec)
    return _in_memory(make(spec, task), task)


def _of_sentences(spec: CoreSpec, task: SentenceTask) -> Example:
    if (make := spec.part("boards", "sentence_example", "sentence_example")) is None:
        raise UserError(f"{spec.name} runs no transformer: {task.name} is a task of text")
    example: Example = make(spec, task)
    return example


def _in_memory(example: Example, task: Task) -> Example:
    """The example, or None if the job's memory exceeds `MOST_MEMORY`."""
    if example.memory.end > MOST_MEMORY:
        raise UserError(
            f"{task.name}: the job takes {example.memory.end:,} bytes of shared memory, more than {MOST_MEMORY:,}: "
            "fewer samples, or fewer epochs or steps"
        )
    return example


def example_files(example: Example, system: str) -> dict[str, str | bytes]:
    """Files of the example's folder for one of `SYSTEMS`: contents by file name."""
    sources = {name: _DRIVER / name for name in ("example.h", "example.c", f"example_{system}.c")}
    sources[f"example_{example.spec.name}.c"] = example.program
    files: dict[str, str | bytes] = {
        f"example/{name}": path.read_text(encoding="utf-8") for name, path in sources.items()
    }
    files |= {"example/example_job.h": header(example), "example/example.bin": example.memory.image.tobytes()}
    if system == "baremetal":
        files["example/example_image.S"] = assembler_source("example", example.memory)
    return files


def example_page(example: Example, systems: Sequence[str]) -> str:
    """Format the README's section on the example for some of `SYSTEMS`."""
    task = example.data
    what = _DIGITS if task.drawn else _OWN.replace("DATA", task.name).replace("TESTED", f"{example.tested:,}")
    before, after = example.percentages
    golden = f"{what} The tuning: {example.how}. Golden says {before} before, {after} after."
    programs = [_STEPS[name] for name in SYSTEMS if name in systems]
    if programs:
        programs = [_PROGRAM, *programs, _RESULT.replace("LINE", example.line)]
    others = [_STEPS[name] for name in ("pynq", "simulation") if name in systems]
    memory = [_OWN_MEMORY, memory_table(example), example.notes] if example.notes else [_MEMORY, memory_table(example)]
    parts = [golden, *programs, *others, *memory]
    return "\n\n".join(parts).replace("CORE", example.spec.name)


def memory_table(example: Example) -> str:
    """Format the regions of the job's memory as a Markdown table."""
    regions = example.memory.regions.items()
    rows = [f"| `{name}` | {example.memory.addresses[name]:#x} | {region.size:,} |" for name, region in regions]
    return "\n".join(
        ["| region | offset | bytes |", "|---|---:|---:|", *rows, f"| together | | {example.memory.end:,} |"]
    )


_DIGITS = """\
A network has learnt digits as they are scanned; then the camera moved, and the core tunes the network on such
images."""
_OWN = """\
The core tunes your network, with your weights, on the samples of DATA, and classifies its TESTED held-out samples
before and after."""
_PROGRAM = """\
The core's commands and their settings are in `example/example_CORE.c`, the rest of the program is `example/example.c`:
a program of your own can begin with these."""
_STEPS = {
    "pynq": """\
On PYNQ the notebook runs it, as does `core.example("example.bin")`, which prints the same line.""",
    "simulation": """\
In a simulation, in the folder `tb/`: `make example` runs the same job at full speed on the bench without Python, and
compares every logit, what was tuned, and the accuracies with golden's. It takes as long as its cycles do.""",
    "linux": """\
On Linux, where the self-test is right:

    sudo linux/example /dev/uioN udmabuf0 example/example.bin        # made with linux/selftest""",
    "baremetal": """\
Without an operating system: a Vitis application as for the self-test, of `fabtune.c`, `fabtune_text.c` and
`fabtune_mmio.c` of `driver/`, and `example.c`, `example_CORE.c`, `example_baremetal.c` and `example_image.S` of
`example/`.""",
}
_RESULT = """\
It prints

    example: LINE

with status 0; with status 1 where a logit is not golden's. The options and the other statuses are those of the
self-test; a command may take 60 s."""
_OWN_MEMORY = "Its memory:"
_MEMORY = "Its memory, whose formats are those of fabtune's page on memory images:"
