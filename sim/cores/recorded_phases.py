"""Phases of a core's bench: recorded calls of the host driver on golden, with memory and expected results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...boards.host.driver import Finished
from ...boards.host.golden_device import GoldenBuffer, GoldenDevice
from ...boards.host.recording import RecordingCore
from ...golden.cores.core import CoreSpec
from ...golden.cores.golden_core import GoldenCore
from ...golden.fixed import Integers
from ..phase import ANSWERING, HOST, Phase, Step

WHOLE_WORD, NOTHING = 0xF, 0x0
"""Strobes of a read: all four bytes are compared, or none."""
CYCLES = ("cycles_low", "cycles_high")
"""Registers that golden does not compute."""


@dataclass
class RecordedBuffer(GoldenBuffer):
    """Buffer whose flushed contents become initial memory of the phase."""

    device: RecordedDevice

    def flush(self) -> None:
        """Write the host's copy to the memory."""
        super().flush()
        assert self.device_address not in self.device.written, "the core has written it in this phase"
        self.device.images[self.device_address] = self.array.astype(np.int64)


class RecordedDevice(GoldenDevice):
    """Golden device with a `Step` recorded for every register access.

    Parameters
    ----------
    spec, core, base
        See `GoldenDevice`.
    patience : int
        The bench's time limit for an interrupt, in cycles.

    Attributes
    ----------
    steps : list of Step
    images : dict of int to array of int
        The host's memory contents, by address.
    """

    def __init__(self, spec: CoreSpec, core: GoldenCore[Any] | None, base: int, patience: int) -> None:
        super().__init__(spec, core, base)
        self.steps: list[Step] = []
        self.images: dict[int, Integers] = {}
        self._patience, self._answers = patience, list[int]()
        self._names = {register.offset: register.name for register in spec.registers.map}

    @property
    def written(self) -> list[int]:
        """Addresses of the buffers written by the core in this phase, in the order of first writes."""
        return self._memory.changed

    def allocate(self, size: int) -> RecordedBuffer:
        """Allocate a buffer of `size` bytes."""
        made = super().allocate(size)
        return RecordedBuffer(made.device_address, made.memory, made.array, self)

    def read(self, offset: int) -> int:
        """Record a register read, and return golden's value."""
        value = super().read(offset)
        self._add(Step("read", offset, strobe=NOTHING if self._names[offset] in CYCLES else WHOLE_WORD), value)
        return value

    def write(self, offset: int, value: int) -> None:
        """Record a register write, and execute the write."""
        self._add(Step("write", offset, value))
        super().write(offset, value)

    def interrupt(self) -> None:
        """Record the wait for the interrupt and its pending flag."""
        self._add(Step("until", "interrupt", self._patience))
        self.read(self._map["interrupt"].offset)

    def quiet(self) -> None:
        """Record a read of the interrupt wire, which is low."""
        self._add(Step("get", "interrupt"))

    def take(self) -> tuple[tuple[Step, ...], dict[str, Integers]]:
        """Return the steps and their answers (columns ``response`` and ``value``), and begin another phase."""
        steps, values = tuple(self.steps), np.array(self._answers, np.int64)[:, None]
        self.steps, self._answers, self.images = [], [], {}
        self.written.clear()
        return steps, {"response": np.zeros_like(values), "value": values}

    def _add(self, step: Step, value: int = 0) -> None:
        self.steps.append(step)
        if step.kind in ANSWERING:
            self._answers.append(value)


class RecordedCore(RecordingCore):
    """Host driver that runs commands on golden and records them for phases.

    Parameters
    ----------
    spec : CoreSpec
    golden : GoldenCore, optional
        See `GoldenDevice`.
    patience : int
        The bench's time limit for a command, in cycles.
    base : int
        Byte address of the first buffer.
    """

    def __init__(
        self, spec: CoreSpec, golden: GoldenCore[Any] | None = None, *, patience: int, base: int = 1 << 12
    ) -> None:
        self._device = RecordedDevice(spec, golden, base, patience)
        super().__init__(spec.registers, self._device, self._device, self._device.interrupt)

    def run(self, command: int, /, **options: Any) -> Finished:
        """Run a command as `Core.run` does, then clear error and interrupt."""
        finished = super().run(command, **options)
        for name in ("error_address", "error_address_high"):
            self.read(name)
        self._device.quiet()
        return finished

    @property
    def last_wait(self) -> int:
        """Index in this phase of the step that waits for the end of the last command."""
        return max(number for number, step in enumerate(self._device.steps) if step.kind == "until")

    def phase(self, reset: bool = False, midway: tuple[int, int, int] = (0, 7, 57)) -> Phase:
        """Make a phase of the steps since the last phase; all regions that the core has written are compared."""
        device, memory = self._device, self._device.images
        kept = {name: at for at in device.written for name, one in self._regions.items() if one.device_address == at}
        written = {name: self._regions[name].array.copy() for name in kept}
        script, answers = device.take()
        expected = {name: {"byte": image.reshape(-1, 1).astype(np.int64)} for name, image in written.items()}
        return Phase(
            expected={**expected, HOST: answers},
            reset=reset,
            memory=memory,
            kept=kept,
            script=script,
            midway=midway,
        )
