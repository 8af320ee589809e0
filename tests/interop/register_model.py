"""Registers of a core from SystemRDL, elaborated by systemrdl-compiler: expectations and access sequences.

No import of fabtune.
"""

import random

from systemrdl import RDLCompiler
from systemrdl.rdltypes import OnWriteType

OKAY, SLVERR = 0, 2
WORD = 4
WAITED = 40
"""Reads, each of some cycles, within which a soft reset of an idle core ends."""
APERTURE = 256
"""Bytes of the registers' address space, from docs/blocks/axi/axi_registers.md."""


def elaborated(path):
    """Compile a file; the top map."""
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def place(field):
    """Mask of a field in the register."""
    return ((1 << field.width) - 1) << field.low


class RegisterModel:
    """Registers of an idle core, from the elaborated description alone."""

    def __init__(self, top):
        self.registers = {register.absolute_address: register for register in top.registers()}
        self.address = {register.inst_name: address for address, register in self.registers.items()}
        self.reset()

    @staticmethod
    def _reset(register):
        return sum((field.get_property("reset") or 0) << field.low for field in register.fields())

    def field(self, path):
        """A field by "register.field"."""
        name, _, field = path.partition(".")
        return self.registers[self.address[name]].get_child_by_name(field)

    def codes(self, path):
        """Codes of a field's enumeration, by name."""
        return {name: code.value for name, code in self.field(path).get_property("encode").members.items()}

    def writable(self, register):
        """Fields that software writes."""
        return [field for field in register.fields() if field.is_sw_writable]

    def requests(self, address):
        """Fields of an address that software sets and the core clears."""
        register = self.registers.get(address)
        return [field for field in register.fields() if field.get_property("hwclr")] if register else []

    def reset(self):
        """All registers take their reset values."""
        self.values = {address: self._reset(register) for address, register in self.registers.items()}

    def locked(self, register):
        """Whether writes are ignored while a field of the core is high."""
        return any(field.get_property("swwel") for field in self.writable(register))

    def write(self, address, data):
        """Write bytes at an address; the response."""
        word, lane = address // WORD * WORD, address % WORD
        register = self.registers.get(word)
        if register is None or not self.writable(register):
            return SLVERR
        value = int.from_bytes(data, "little") << 8 * lane
        strobed = ((1 << 8 * len(data)) - 1) << 8 * lane
        for field in self.writable(register):
            mask, kind = strobed & place(field), field.get_property("onwrite")
            if kind is None:
                self.values[word] = self.values[word] & ~mask | value & mask
            elif kind is OnWriteType.woclr:
                self.values[word] &= ~(value & mask)
            elif kind is OnWriteType.woset:
                self.values[word] |= value & mask
            else:
                raise NotImplementedError(kind)
        return OKAY

    def read(self, address):
        """Response and value of a word."""
        register = self.registers.get(address)
        if register is None:
            return SLVERR, 0
        assert all(field.get_property("onread") is None for field in register.fields())
        shown = sum(place(field) for field in register.fields() if field.is_sw_readable)
        return OKAY, self.values[address] & shown


class Sequence:
    """Steps for `bench_axi`, with the description's expectation of each step."""

    def __init__(self, model, seed):
        self.model, self.steps, self.random = model, [], random.Random(seed)

    def write(self, address, value, lane=0, size=WORD):
        """Write some bytes of a word."""
        data = value.to_bytes(WORD, "little")[lane : lane + size]
        self.steps.append(("write", address + lane, data.hex(), self.model.write(address + lane, data)))

    def read(self, address, mask=(1 << 8 * WORD) - 1):
        """Read a word."""
        response, value = self.model.read(address)
        self.steps.append(("read", address, response, mask, value & mask))

    def read_all(self):
        """Read every word of the address space, in any order."""
        for address in self.random.sample(range(0, APERTURE, WORD), APERTURE // WORD):
            self.read(address)

    def idle(self, walking):
        """Every register of an idle core; a walking one and a walking zero through a number of registers."""
        starts = self.model.address["command"]
        self.read_all()
        settings = [
            address
            for address, register in self.model.registers.items()
            if self.model.writable(register) and address != starts and not self.model.requests(address)
        ]
        walked = self.random.sample(settings, min(walking, len(settings)))
        for address in self.random.sample(settings, len(settings)):
            ones = (1 << 8 * WORD) - 1
            patterns = [ones, 0, self.random.getrandbits(32)]
            if address in walked:
                patterns += [pattern for bit in range(32) for pattern in (1 << bit, ones ^ 1 << bit)]
            for pattern in patterns:
                self.write(address, pattern)
                self.read(address)
            for lane, size in ((0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (1, 2), (2, 2), (0, 3), (1, 3)):
                self.write(address, self.random.getrandbits(32), lane, size)
                self.read(address)
        self.read_all()
        for address in self.random.sample(range(0, APERTURE, WORD), APERTURE // WORD):
            if address not in settings and address != starts:
                # of a request field all bits except the requesting bits
                bits = sum(place(field) for field in self.model.requests(address))
                self.write(address, self.random.getrandbits(32) & ~bits)
        self.read_all()

    def soft_reset(self):
        """A reset request on changed registers; then every register has its reset value."""
        model = self.model
        address = model.address["soft_reset"]
        for value, lane, size in ((0, 0, 4), (0xFFFFFFFE, 0, 4), (1 << 8, 1, 3)):
            self.write(address, value, lane, size)
            self.read(address)
        self.write(address, 1)
        self.read(address)
        for _ in range(WAITED):
            self.read(model.address["signature"])
        model.reset()
        self.read_all()
        self.steps.append(("interrupt", 0, 4))

    def refused(self):
        """A code without a command: the core's answer in status, the event, the interrupt, and the clearing."""
        model = self.model
        codes = model.codes("command.value")
        event, status = model.address["interrupt"], model.address["status"]
        enable = model.field("interrupt.finished").get_property("enable")
        for code in (0, max(codes.values()) + 1, 1 << 31):
            self.write(enable.parent.absolute_address, place(enable))
            self.steps.append(("interrupt", 0, 1))
            self.steps.append(("write", model.address["command"], code.to_bytes(WORD, "little").hex(), OKAY))
            self.steps.append(("interrupt", 1, 1000))
            self.read(model.address["command"])
            model.values[status] = place(model.field("status.done")) | place(model.field("status.error"))
            bad = model.codes("status.error_code")["bad_command"]
            model.values[status] |= bad << model.field("status.error_code").low
            model.values[event] = place(model.field("interrupt.finished"))
            model.values[model.address["error_address"]] = code
            for address in (status, event, model.address["error_address"], model.address["error_address_high"]):
                self.read(address)
            # neither zeros nor other bytes clear the bit; without the enable the line is low and the bit stays
            for value, lane, size in ((0, 0, 4), (0xFFFFFF00, 1, 3), (0xFFFFFFFE, 0, 4)):
                self.write(event, value, lane, size)
                self.read(event)
            self.steps.append(("interrupt", 1, 1))
            self.write(enable.parent.absolute_address, 0)
            self.steps.append(("interrupt", 0, 4))
            self.read(event)
            self.write(enable.parent.absolute_address, place(enable))
            self.steps.append(("interrupt", 1, 4))
            self.write(event, 1, 0, 1)
            self.steps.append(("interrupt", 0, 4))
            self.read(event)
