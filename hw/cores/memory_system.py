"""Memory system of a core: AXI4 ports, a cache RAM on the chip, and arbiters between requesters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_read import AxiReadSpec
from ...golden.axi.axi_write import AxiWriteSpec
from ...golden.axi.bus import ADDRESS_BITS, BEAT
from ..axi.arbiter import ReadArbiter, WriteArbiter
from ..axi.axi_read import AxiRead
from ..axi.axi_write import AxiWrite
from ..axi.bus import Read, Write
from ..axi.cache_ram import CacheRam
from ..axi.memory_port import OFFSET_BITS, CommandFault, ReadPort, WritePort, beat_number, byte_address
from ..primitives.fifo import Fifo
from ..primitives.registers import data_register

FIFO_DEPTH = 4
"""Commands and beats between a requester and its port; these FIFOs cut the combinational ready paths."""


def buses(ports: int, address: int = ADDRESS_BITS) -> dict[str, wiring.Member]:
    """Members of a core's AXI4 ports: ``reader0``, ``writer0``, ``reader1`` and so on, each an `Out`."""
    halves = {"reader": Read(address), "writer": Write(address)}
    return {f"{name}{port}": Out(bus) for port in range(ports) for name, bus in halves.items()}


class MemorySystem(wiring.Component):
    """Connects requesters to the external memory and to a cache RAM.

    Requesters share the first AXI4 port by rank; the requesters in `on_chip` use the cache RAM instead. The requesters
    in `spread` also read through the other AXI4 ports. All writes use the first port: the write channels of the other
    ports stay idle.

    Parameters
    ----------
    reads, writes : sequence of str
        Names of the reading and of the writing requesters, the highest rank first.
    errors : type of IntEnum
        Error codes of the core, with ``READ_SLVERR``, ``READ_DECERR``, ``WRITE_SLVERR`` and ``WRITE_DECERR``.
    on_chip : sequence of str
        Requesters of the cache RAM.
    spread : sequence of str
        Requesters that read through every AXI4 port.
    buffered : sequence of str
        Requesters whose beats pass a FIFO because their ready depends on other logic.
    ports : int
        AXI4 ports to the external memory.
    registered : bool
        Adds a register, and a cycle, between the requesters of an AXI4 port and its reader: shorter paths.
    ram_beats : int
        Beats of the cache RAM; 0: no cache RAM.
    reader, writer : AxiReadSpec, AxiWriteSpec, optional
        Bursts and FIFOs of each port; their `address` is replaced by `bus`.
    address : int
        Bits of a requester's byte address.
    bus : int, optional
        Bits of a byte address on the AXI4 ports, by default `address`. Accesses beyond them end in ``READ_DECERR`` or
        ``WRITE_DECERR``.

    Attributes
    ----------
    NAME_read : In, `ReadPort`, for each of `reads`
        Reads of a requester.
    NAME_read1, NAME_read2, ... : In, `ReadPort`, for each of `spread`
        Reads of a requester through the other AXI4 ports.
    NAME_write : In, `WritePort`, for each of `writes`
        Writes of a requester.
    reader0, writer0, reader1, writer1, ... : Out, `Read` and `Write`
        AXI4 ports, as managers.
    settled : Out(1)
        All beats of all accepted write commands are in a memory; a cycle late.
    stop : In(1)
        Issue no further burst and drop arriving beats, until reset.
    hold : In(1)
        Issue no burst in this cycle; commands wait.
    quiet : Out(1)
        No burst is outstanding on any port.
    fault : Out, `CommandFault`
        First error response, with the address of its burst. The address has a bit more than the bus, set for a burst
        beyond the bus.
    """

    def __init__(
        self,
        reads: Sequence[str],
        writes: Sequence[str],
        errors: type[IntEnum],
        on_chip: Sequence[str] = (),
        spread: Sequence[str] = (),
        buffered: Sequence[str] = (),
        ports: int = 1,
        registered: bool = False,
        ram_beats: int = 0,
        reader: AxiReadSpec | None = None,
        writer: AxiWriteSpec | None = None,
        address: int = ADDRESS_BITS,
        bus: int = 0,
    ) -> None:
        self.address, self.bus = address, bus or address
        self.reader = replace(reader or AxiReadSpec(), address=self.bus)
        self.writer = replace(writer or AxiWriteSpec(), address=self.bus)
        self.reads, self.writes, self.errors = reads, writes, errors
        self.on_chip, self.spread, self.buffered = on_chip, spread, buffered
        self.ports, self.registered, self.ram_beats = ports, registered, ram_beats
        others = [f"{name}_read{port}" for port in range(1, ports) for name in spread]
        super().__init__(
            {
                **{f"{name}_read": In(ReadPort(address)) for name in reads},
                **dict.fromkeys(others, In(ReadPort(address))),
                **{f"{name}_write": In(WritePort(address)) for name in writes},
                **buses(ports, self.bus),
                **dict.fromkeys(("settled", "quiet"), Out(1)),
                **dict.fromkeys(("stop", "hold"), In(1)),
                "fault": Out(CommandFault(errors, self.bus + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outside, on_chip = (
            [[name for name in names if (name in self.on_chip) == chip] for names in (self.reads, self.writes)]
            for chip in (False, True)
        )
        settled, quiet = [], []
        self._fault_beat = Signal(self.bus + 1 - OFFSET_BITS, name="fault_beat")
        m.d.comb += self.fault.address.eq(byte_address(self._fault_beat))
        for port in range(self.ports):
            reads = [name for name in outside[0] if not port or name in self.spread]
            writes = [] if port else outside[1]
            read = AxiRead(self.reader, self.address)
            write = AxiWrite(self.writer, self.address) if writes else None
            halves = {"read": read} | ({"write": write} if write else {})
            for half, manager in halves.items():
                m.submodules[f"{half}{port}"] = manager
            wiring.connect(m, read.bus, wiring.flipped(getattr(self, f"reader{port}")))
            if write:
                wiring.connect(m, write.bus, wiring.flipped(getattr(self, f"writer{port}")))
            for manager in halves.values():
                m.d.comb += [manager.stop.eq(self.stop), manager.hold.eq(self.hold)]
            self._readers(m, f"readers{port}", reads, self._commands(m, read), read.o, f"{port or ''}")
            if write:
                settled.append(self._writers(m, port, writes, write) & write.idle)
            quiet += [manager.idle for manager in halves.values()]
            self._faults(m, halves)
        if self.ram_beats:
            m.submodules.ram = ram = CacheRam(self.ram_beats, self.address)
            self._readers(m, "ram_readers", on_chip[0], ram.read, ram.o)
            m.submodules.ram_writers = arbiter = self._write_arbiter(m, on_chip[1])
            wiring.connect(m, arbiter.command, ram.write)
            wiring.connect(m, arbiter.o, ram.i)
            settled.append(arbiter.idle & ram.idle)
        m.d.comb += self.quiet.eq(Cat(quiet).all())
        m.d.sync += self.settled.eq(Cat(settled).all())
        return m

    def _commands(self, m: Module, read: AxiRead) -> stream.Interface:
        """Interface for read commands, with a register before the reader if `registered`."""
        into = read.command
        if not self.registered:
            return into
        commands = into.signature.create(path=("command",))
        payload = data_register(m, into.payload, "command_data")
        m.d.comb += commands.ready.eq(~into.valid | into.ready)
        with m.If(commands.ready):
            m.d.sync += [into.valid.eq(commands.valid), payload.eq(commands.payload)]
        return commands

    def _readers(
        self,
        m: Module,
        name: str,
        names: Sequence[str],
        commands: stream.Interface,
        beats: stream.Interface,
        port_number: str = "",
    ) -> None:
        """Connect requesters to a reader through an arbiter; nothing without requesters."""
        if not names:
            return
        m.submodules[name] = arbiter = ReadArbiter(names, self.address)
        for each in names:
            port, shared = getattr(self, f"{each}_read{port_number}"), getattr(arbiter, f"{each}_read")
            if each in self.buffered:
                m.submodules[f"{each}_beats{port_number}"] = fifo = Fifo(8 * BEAT, FIFO_DEPTH)
                wiring.connect(m, wiring.flipped(port.command), shared.command)
                wiring.connect(m, shared.beats, fifo.i)
                wiring.connect(m, fifo.o, wiring.flipped(port.beats))
            else:
                wiring.connect(m, wiring.flipped(port), shared)
        wiring.connect(m, arbiter.command, commands)
        wiring.connect(m, beats, arbiter.i)

    def _write_arbiter(self, m: Module, names: Sequence[str]) -> WriteArbiter:
        arbiter = WriteArbiter(names, self.address)
        for each in names:
            wiring.connect(m, wiring.flipped(getattr(self, f"{each}_write")), getattr(arbiter, f"{each}_write"))
        return arbiter

    def _writers(self, m: Module, port: int, names: Sequence[str], write: AxiWrite) -> Value:
        """Connect requesters to a writer through an arbiter and FIFOs; return whether all three are empty."""
        m.submodules[f"writers{port}"] = arbiter = self._write_arbiter(m, names)
        m.submodules[f"commands{port}"] = commands = Fifo(write.command.payload.shape(), FIFO_DEPTH)
        m.submodules[f"beats{port}"] = beats = Fifo(8 * BEAT, FIFO_DEPTH)
        wiring.connect(m, arbiter.command, commands.i)
        wiring.connect(m, arbiter.o, beats.i)
        wiring.connect(m, commands.o, write.command)
        m.d.comb += [
            write.i.valid.eq(beats.o.valid),
            write.i.payload.data.eq(beats.o.payload),
            beats.o.ready.eq(write.i.ready),
        ]
        return arbiter.idle & commands.empty & beats.empty

    def _faults(self, m: Module, halves: Mapping[str, AxiRead | AxiWrite]) -> None:
        """Hold the first fault; readers and writers hold their faults until reset."""
        codes = self.errors.__members__
        for half, manager in reversed([*halves.items()]):
            slave, decode = (codes[f"{half.upper()}_{kind}"] for kind in ("SLVERR", "DECERR"))
            with m.If(manager.error.any() & ~self.fault.failed):
                m.d.sync += [
                    self.fault.failed.eq(1),
                    self.fault.error.eq(Mux(manager.error[0], decode, slave)),
                    self._fault_beat.eq(beat_number(manager.error_address)),
                ]
