"""Rules of `MemorySystem`: its AXI4 ports, rest signals and faults, for arbitrary requesters.

Requesters may send commands of any address and length, and may offer and withdraw beats at any time, so the rules hold
in each core. That each requester gets its beats in order follows from `formal_read_arbiter`, `formal_write_arbiter`,
`formal_axi_read`, `formal_axi_write` and `formal_fifo`; the rules here prove that each beat of a reader reaches exactly
one requester.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Mux, Signal, Value

from ...golden.axi.axi_read import AxiReadSpec
from ...golden.axi.axi_write import AxiWriteSpec
from ...golden.axi.bus import ADDRESS_BITS
from ...hw.cores.memory_system import FIFO_DEPTH, MemorySystem
from ..formal.checker import Checker
from ..formal.inside import parts_of
from ..formal.managers import ReadEdge, WriteEdge

READER = AxiReadSpec(address=ADDRESS_BITS, burst=2, depth=4)
WRITER = AxiWriteSpec(address=ADDRESS_BITS, burst=2, depth=4, outstanding=2)
CUT = ("memories",)
READS, WRITES = ("order", "bulk", "samples"), ("bulk", "logits")


class Error(IntEnum):
    BAD_COMMAND = 1
    READ_SLVERR = 2
    READ_DECERR = 3
    WRITE_SLVERR = 4
    WRITE_DECERR = 5


def part() -> MemorySystem:
    """Make a memory system with one port and a RAM, whose requesters have more address bits than the port."""
    return MemorySystem(
        READS,
        WRITES,
        Error,
        on_chip=("bulk",),
        buffered=("order", "bulk"),
        ram_beats=4,
        reader=READER,
        writer=WRITER,
        address=ADDRESS_BITS + 2,
        bus=ADDRESS_BITS,
    )


def check(checker: Checker, part: MemorySystem) -> None:
    """Add the rules."""
    for name in checker.inputs:
        if name.endswith(("command", "write_beats")):
            checker.inner(name, checker.streams[name])
    edges(checker, part)
    with checker.lemmas_end():
        _settled(checker, part)
    _faults(checker, part)
    _beats(checker)
    # a requester without a FIFO sees the reader's beats directly: none come after a fault or `stop`
    splitter = parts_of(parts_of(part).read0).splitter
    beyond = splitter.o.valid & splitter.beyond
    checker.handshake("samples_read_beats", unless=part.stop | beyond | _bad(checker, "reader0"))


def _beats(checker: Checker) -> None:
    """Each beat of a reader goes to one requester's port, directly or through the port's FIFO."""
    parts = parts_of(checker.block)
    arbiters = {"order": parts.readers0, "samples": parts.readers0, "bulk": parts.ram_readers}
    for name, arbiter in arbiters.items():
        checker.inner(f"{name}_given", getattr(arbiter, f"{name}_read").beats)
        if name != "samples":
            checker.words(f"{name}_given", f"{name}_read_beats", capacity=FIFO_DEPTH + 1, drained=FIFO_DEPTH + 3)
    checker.rule("samples_passed", checker.moves("samples_given") == checker.moves("samples_read_beats"))
    order, samples, bulk = (checker.moves(f"{name}_given") for name in arbiters)
    for name, reader, given in (("reader0", parts.read0, order | samples), ("ram", parts.ram, bulk)):
        checker.rule(f"{name}_beats", (reader.o.valid & reader.o.ready) == given)
    checker.rule("reader0_beat_once", ~(order & samples))


def edges(checker: Checker, part: MemorySystem, rest: Value | int = 0) -> None:
    """Add the rules of the AXI4 ports, and of `quiet`; only the first port writes: ``writer1_silent``.

    While `rest`, nothing is offered or outstanding: ``reader0_rest``, ``writer0_rest`` and so on.
    """
    parts = parts_of(part)
    for port in range(part.ports):
        with checker.lemmas_end():
            reader = ReadEdge(checker, f"reader{port}", parts[f"read{port}"])
            checker.rule(f"reader{port}_rest", ~Value.cast(rest) | reader.memory.quiet)
        if port:
            offered = (checker.streams[f"writer{port}_{half}"].valid for half in ("aw", "w"))
            checker.rule(f"writer{port}_silent", ~Cat(*offered).any())
    with checker.lemmas_end():
        writer = WriteEdge(checker, "writer0", parts.write0)
        checker.rule("writer0_rest", ~Value.cast(rest) | writer.memory.quiet)
        writer.stored(checker, "writer0", parts.write0)
    # by the rules above, an idle manager offers nothing and has nothing outstanding
    checker.rule("quiet", ~part.quiet | idle(part))


def idle(part: MemorySystem) -> Value:
    """High while all managers of a memory system are idle: the read managers of all ports, and the write manager."""
    parts = parts_of(part)
    return Cat(parts.write0.idle, *(parts[f"read{port}"].idle for port in range(part.ports))).all()


def _bad(checker: Checker, name: str) -> Signal:
    """High in the cycle after an error response to a read."""
    bad = Signal(name=f"{name}_bad")
    checker.m.d.sync += bad.eq(checker.moves(f"{name}_r") & checker.payload(f"{name}_r").response[1])
    return bad


def _settled(checker: Checker, part: MemorySystem) -> None:
    """Rule ``settled``: in the cycle before, all commands were forwarded and split, and all bursts answered."""
    m, parts = checker.m, parts_of(checker.block)
    write, commands = parts.write0, parts.commands0
    passed = write.command.valid & write.command.ready
    waiting, opened = (Signal(range(8), name=name) for name in ("commands_waiting", "bursts_open"))
    split, inside = parts_of(write).splitter, parts_of(write)
    m.d.sync += [
        waiting.eq(waiting + checker.moves("logits_write_command") - passed),
        opened.eq(opened + (split.o.valid & split.o.ready) - checker.moves("writer0_b")),
    ]
    checker.lemma("commands", (commands.empty == (waiting == 0)) & (waiting <= 5))
    checker.lemma("bursts", inside.outstanding.empty == (opened == 0))
    rests = [waiting == 0, split.idle, opened == 0, parts.writers0.idle, parts.ram.idle, parts.ram_writers.idle]
    rested = Signal(name="rested")
    m.d.sync += rested.eq(Cat(rests).all())
    checker.rule("settled", ~part.settled | rested)


def _faults(checker: Checker, part: MemorySystem) -> None:
    """A manager's error becomes the fault in the next cycle, with code and address; the first fault stays."""
    m, parts, fault = checker.m, parts_of(checker.block), part.fault
    found = Signal(name="found")
    errors, true = [], []
    for half in ("read", "write"):
        manager = parts[f"{half}0"]
        code, address = (Signal.like(each) for each in (manager.error, manager.error_address))
        m.d.sync += [code.eq(manager.error), address.eq(manager.error_address)]
        errors.append(manager.error)
        names = (Error[f"{half.upper()}_{kind}"] for kind in ("DECERR", "SLVERR"))
        expected = Mux(code[0], *names)
        true.append((code != 0) & (fault.error == expected) & (fault.address == address))
    m.d.sync += found.eq(found | Cat(errors).any())
    before, held = Signal(name="failed_before"), Signal.like(Cat(fault.error, fault.address), name="fault_held")
    m.d.sync += [before.eq(fault.failed), held.eq(Cat(fault.error, fault.address))]
    checker.rule("fault_failed", fault.failed == found)
    checker.rule("fault_first", ~fault.failed | before | Cat(true).any())
    checker.rule("fault_held", ~before | (fault.failed & (Cat(fault.error, fault.address) == held)))
