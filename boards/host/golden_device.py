"""Golden core as a device for the host driver: registers, memory and interrupt, without RTL or board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...golden.axi.regions import ALIGNMENT, Bytes, JobMemory
from ...golden.axi.register_map import SIGNATURE
from ...golden.cores.core import CoreSpec
from ...golden.cores.golden_core import CommandResult, CoreMemory, GoldenCore, golden_core
from ...golden.cores.shell import HIGH, RESET
from ...golden.errors import UserError


@dataclass
class GoldenBuffer:
    """Buffer of a golden core; implements `driver.Buffer`. The core sees only flushed data, as on a board.

    Parameters
    ----------
    device_address : int
    memory : array of uint8
        The bytes that the core sees.
    array : array of uint8
        The host's copy.
    """

    device_address: int
    memory: Bytes = field(repr=False)
    array: Bytes = field(repr=False)

    def flush(self) -> None:
        """Copy the host's bytes to the core."""
        self.memory[:] = self.array

    def invalidate(self) -> None:
        """Copy the core's bytes to the host."""
        self.array[:] = self.memory


class GoldenDevice:
    """Golden model of a core with memory, as a device for the host driver `driver.Core`.

    The write of a command register runs the whole command at once. The cycle counter stays 0.

    Parameters
    ----------
    spec : CoreSpec
    core : GoldenCore, optional
        By default the spec's golden core; a `UserError` for a spec without one.
    base : int
        Byte address of the first buffer, a multiple of `ALIGNMENT`.

    Attributes
    ----------
    traced_images : array of uint8, (batches or steps, bytes)
        Images of the parameters after each batch or step since `trace_image`.
    """

    def __init__(self, spec: CoreSpec, core: GoldenCore[Any] | None = None, base: int = ALIGNMENT) -> None:
        self._spec, self._core, self._memory = spec, core or golden_core(spec), CoreMemory(spec)
        self._places = JobMemory(base)
        self.traced_images = np.empty((0, 0), np.uint8)
        self._map, self._words = spec.registers.map, dict[int, int]()
        self._reset()

    def allocate(self, size: int) -> GoldenBuffer:
        """Allocate a buffer of `size` bytes; accesses of the core outside all buffers are decode errors."""
        address, array = self._places.reserve(size), np.zeros(size, np.uint8)
        self._memory.add(address, array)
        return GoldenBuffer(address, array, array.copy())

    def trace_image(self, image: Bytes) -> None:
        """Record the parameters' images from here on; `image` is the present image."""
        self._core.updates = []
        if not self.traced_images.size:
            self.traced_images = np.empty((0, image.size), np.uint8)

    def read(self, offset: int) -> int:
        """Read a register at a byte offset."""
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a register at a byte offset; a command is carried out at once."""
        register = next((one for one in self._map if one.offset == offset), None)
        if register is None or register.access == "R":
            return
        if register.name == RESET.name:
            if value & 1:
                self._reset()
        elif register.access == "W1C":
            self._words[offset] = self._words.get(offset, 0) & ~value
        elif register.name == "command":
            self._end(self._core.run(value, self._settings(), self._memory))
            if self._core.updates:
                self.traced_images = np.stack([*self.traced_images, *self._core.updates[1:]])
                self._core.updates = []
        else:
            self._words[offset] = value

    def interrupt(self) -> None:
        """Return at once: a command has ended when its write returns."""

    def fault(self, *_: Any) -> None:
        """Refuse faulty beats, resets within a command and waveforms, which need a bus or a clock."""
        raise UserError(f"the golden core of {self._spec.name} has neither bus nor clock: simulate its RTL for that")

    fault_in = fault_of_buffer = reset_in = waves = fault

    def _reset(self) -> None:
        self._core.reset()
        self._words = {register.offset: register.reset for register in self._map}
        self._set({SIGNATURE: self._spec.signature})

    def _settings(self) -> dict[str, int]:
        values = {}
        for setting in self._spec.registers.settings:
            words = [self._words[self._map[name].offset] for name in setting.registers]
            values[setting.name] = sum(word << 32 * place for place, word in enumerate(words))
        return values

    def _end(self, result: CommandResult) -> None:
        """Write the end of a command to the registers."""
        fields = {one.name: one.low for one in self._map["status"].fields}
        status, address = 1 << fields["done"], 0
        if result.error:
            status |= 1 << fields["error"] | result.error.error << fields["error_code"]
            address = result.error.value
        counters = dict.fromkeys(self._spec.registers.counter_names, 0) | result.counters
        self._set({"status": status, "interrupt": 1, "error_address": address & 0xFFFF_FFFF})
        self._set({f"error_address{HIGH}": address >> 32} | counters)

    def _set(self, values: Mapping[str, int]) -> None:
        self._words.update({self._map[name].offset: value for name, value in values.items()})
