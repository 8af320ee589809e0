"""Golden core for tests of host drivers: records commands, and may fail them."""

import numpy as np

from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.golden.cores.core import Refusal
from fabtune.golden.cores.golden_core import CommandResult


class PlayedDevice(GoldenDevice):
    """Golden device with a memory.

    Attributes
    ----------
    fault : int
        Error that ends every command; 0 for none.
    fault_address : int commands : list of IntEnum
        Commands written so far.
    buffers : list of GoldenBuffer kept : list of int
        Samples of the last `CACHE`.
    """

    def __init__(self, spec, core=None):
        super().__init__(spec, core)
        self.spec, self.fault, self.fault_address, self.commands, self.buffers = spec, 0, 0, [], []
        self.kept = []

    def at(self, name):
        return self.read(self.spec.registers.map[name].offset)

    def write(self, offset, value):
        if offset == self.spec.registers.map["command"].offset:
            self.commands.append(self.spec.registers.commands(value))
            if self.commands[-1].name == "CACHE":
                self.kept = sorted(int(index) for indices in self.order() for index in indices)
            if self.fault:
                return self._end(CommandResult(Refusal(self.spec.registers.errors(self.fault), self.fault_address)))
        return super().write(offset, value)

    def allocate(self, size):
        """Buffer with non-zero contents before its first read."""
        self.buffers.append(super().allocate(size))
        self.buffers[-1].array[:] = 0xAA
        return self.buffers[-1]

    @property
    def contents(self):
        """Bytes of all buffers, as the core sees them."""
        return [buffer.memory.tobytes() for buffer in self.buffers]

    def image(self, name, size):
        """Memory at the address in a register."""
        return self._memory.read(self.at(name), size)

    def order(self):
        """Sample indices of each step of the schedule."""
        size, steps = 16 * -(-(1 + self.at("batch")) // 4), self.at("steps")
        for row in self.image("order", size * steps).view("<u4").reshape(steps, -1):
            yield (row[1 : 2 + (row[0] >> 16)] & 0xFFFFFF).astype(np.int64)
