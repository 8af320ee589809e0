"""Registers and memory of a core whose commands golden carries out, on images that it reads by itself."""

from dataclasses import dataclass

import numpy as np

MEMORY = 1 << 20


class PlayedCore:
    """Core for the host driver; heirs have a method for each command, and `spec`.

    Attributes
    ----------
    fault : int
        Error with which every command ends; 0 for none.
    commands : list of IntEnum
        Those that were written.
    """

    def __init__(self, spec):
        self.spec, self.registers = spec, spec.registers.map
        self.words = {register.offset: 0 for register in self.registers}
        self.words[self.registers["signature"].offset] = spec.signature
        self.memory, self.end, self.fault, self.commands = np.zeros(MEMORY, np.uint8), 4096, 0, []

    def at(self, name):
        return self.words[self.registers[name].offset]

    def count(self, **counts):
        self.words |= {self.registers[name].offset: value for name, value in counts.items()}

    def read(self, offset):
        return self.words[offset]

    def write(self, offset, value):
        self.words[offset] = value
        if offset == self.registers["command"].offset:
            command = self.spec.registers.commands(value)
            self.commands.append(command)
            if not self.fault:
                getattr(self, command.name.lower())()
            self.count(status=0b110 | self.fault << 8 if self.fault else 0b010, cycles_low=len(self.commands))

    def allocate(self, size):
        address, self.end = self.end, self.end + -(-size // 4096) * 4096
        return PlayedBuffer(self, address, np.full(size, 0xAA, np.uint8))

    def image(self, name, size):
        return self.memory[self.at(name) :][:size]

    def order(self):
        """Rate, indices and labels of each step of the order list."""
        size, steps = 16 * -(-(1 + self.at("batch")) // 4), self.at("steps")
        for row in self.image("order", size * steps).view("<u4").reshape(steps, -1):
            count = 1 + (row[0] >> 16)
            yield int(row[0] & 0xFFFF), row[1 : 1 + count] & 0xFFFFFF, row[1 : 1 + count] >> 24

    def state(self, generator):
        """Bits of the generator's state."""
        return np.unpackbits(self.image("state", 512), bitorder="little")[: generator.state_bits]

    def write_logits(self, logits):
        """Write logits, each sample's from a beat on."""
        beats = -(-logits.shape[1] // 4)
        rows = self.image("logits", 16 * beats * len(logits)).view("<i4").reshape(len(logits), -1)
        rows[:, : logits.shape[1]] = logits


@dataclass
class PlayedBuffer:
    """Buffer that the core sees only after a flush, and the host only after an invalidation."""

    core: PlayedCore
    device_address: int
    array: np.ndarray

    def flush(self):
        self.core.memory[self.device_address :][: self.array.size] = self.array

    def invalidate(self):
        self.array[:] = self.core.memory[self.device_address :][: self.array.size]
