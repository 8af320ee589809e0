"""Rules of `axi_registers`: each access gets an answer and takes effect at the right time; locking and interrupts.

The map has a register of each kind, some locked, and unmapped addresses; the rules hold for any map. AW and W of a
write come in any order, any number of cycles apart; reads, `locked`, `clear` and events come at any time.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from ...golden.axi.axi_registers import OKAY, SLVERR, AxiRegistersSpec
from ...golden.axi.register_map import ENABLE, SIGNATURE, WORD, Register, RegisterField, RegisterMap
from ..formal.checker import Checker

MAP = RegisterMap(
    "few",
    (
        Register("command", 0x00, "W", "a code", locked=True),
        Register("status", 0x04, "R", "a word of the core"),
        Register(f"events{ENABLE}", 0x08, "RW", "what raises the line"),
        Register("events", 0x0C, "W1C", "events", (RegisterField("one", 0, 1, ""), RegisterField("other", 9, 1, ""))),
        Register(SIGNATURE, 0x14, "R", "a constant"),
        Register("rate", 0x18, "RW", "a setting", reset=5, locked=True),
        Register(
            "request", 0x1C, "W1S", "a request", (RegisterField("asked", 0, 1, ""), RegisterField("more", 17, 1, ""))
        ),
    ),
    address_bits=5,
)
SPEC = AxiRegistersSpec(registers=MAP, signature=0x12345678)


def check(checker: Checker, spec: AxiRegistersSpec) -> None:
    m, b = checker.m, checker.block.bus.b
    moves = {name: checker.moves(f"bus_{name}") for name in ("aw", "w", "b", "ar", "r")}
    for half in ("aw", "w"):
        # while an answer waits, AW or W of the next write may already be taken: at most 2 outstanding
        checker.balance(f"b_of_{half}", [(moves[half], 1)], [(b.valid, moves["b"], 1)], 2)
    checker.words("bus_ar", "bus_r", capacity=1, drained=2)

    # a write acts in the cycle after the later of AW and W, or once the previous answer is taken
    held = {half: Signal(name=f"{half}_held") for half in ("aw", "w")}
    word, write = Signal(spec.map.address_bits - 2, name="word"), Signal.like(checker.payload("bus_w"), name="write")
    act, answered = held["aw"] & held["w"] & ~b.valid, Signal(name="answered")
    for half, flag in held.items():
        m.d.sync += flag.eq(flag & ~act | moves[half])
        checker.rule(f"{half}_ready", checker.streams[f"bus_{half}"].ready == ~flag)
    with m.If(moves["aw"]):
        m.d.sync += word.eq(checker.payload("bus_aw").address[2:])
    with m.If(moves["w"]):
        m.d.sync += write.eq(checker.payload("bus_w"))
    m.d.sync += answered.eq(act | answered & ~b.ready)
    writable = [item for item in spec.map if item.access != "R"]
    response = Signal(2, name="response")
    with m.If(act):
        known = Cat(word == item.offset // WORD for item in writable).any()
        m.d.sync += response.eq(Mux(known, OKAY, SLVERR))
    checker.rule("answered", (b.valid == answered) & (~answered | (b.payload.response == response)))

    mask = Cat(bit.replicate(8) for bit in write.strobe)
    values: dict[str, Value] = {SIGNATURE: Const(spec.signature, 32)}
    for item in spec.map:
        if item.name != SIGNATURE:
            hit = act & (word == item.offset // WORD) & ~(checker.block.locked & Const(item.locked, 1))
            values[item.name] = _register(checker, item, hit, write.data, mask)
    _interrupts(checker, spec.map, values)
    _reads(checker, spec.map, values)


def _register(checker: Checker, item: Register, hit: Value, data: Value, mask: Value) -> Value:
    """Value of a register under writes; rules ``NAME_value``, ``NAME_locked`` and ``NAME_strobe``."""
    m, block = checker.m, checker.block
    if item.access == "R":
        return Value.cast(getattr(block, item.name))
    value = Signal(32, name=f"{item.name}_value", init=item.reset)
    if item.access == "W1C":
        events = Cat(
            *(
                getattr(block, named[0].name)
                if (named := [entry for entry in item.fields if entry.low == bit])
                else Const(0)
                for bit in range(32)
            )
        )
        m.d.sync += value.eq(Mux(block.clear, 0, value & ~Mux(hit, data & mask, 0) | events))
        return value
    port, before, locked = getattr(block, item.name), Signal(32, name=f"{item.name}_before"), Signal()
    fresh = Signal(name=f"{item.name}_fresh", init=1)
    m.d.sync += [before.eq(port), locked.eq(block.locked & ~block.clear), fresh.eq(0)]
    with m.If(block.clear):
        m.d.sync += value.eq(item.reset)
    with m.Elif(hit):
        kept = {"RW": value & ~mask, "W1S": value, "W": Const(0)}[item.access]
        bits = Const(sum(field.mask for field in item.fields), 32) if item.access == "W1S" else Const(-1, 32)
        m.d.sync += value.eq(data & mask & bits | kept)
    checker.rule(f"{item.name}_value", port == value)
    if item.locked:
        # does not rely on the value rule
        checker.rule(f"{item.name}_locked", fresh | ~locked | (port == before))
    if item.access == "W":
        strobe, due, strobed = getattr(block, f"{item.name}_strobe"), Signal(name="due"), Signal(name="strobed")
        m.d.sync += [due.eq(hit & mask.any() & ~block.clear), strobed.eq(strobe)]
        # never twice in a row: a core locking in the cycle after a strobe must not see a second strobe
        checker.rule(f"{item.name}_strobe", (strobe == due) & ~(strobe & strobed))
        return Const(0, 32)
    return value


def _interrupts(checker: Checker, registers: RegisterMap, values: dict[str, Value]) -> None:
    for item in registers.accessed("W1C"):
        enable = registers.enable(item)
        raised = (values[item.name] & (values[enable.name] if enable else -1)).any()
        checker.rule(f"{item.name}_line", getattr(checker.block, f"{item.name}_line") == raised)


def _reads(checker: Checker, registers: RegisterMap, values: dict[str, Value]) -> None:
    """Rule ``read``: a read returns the value that the register had in the cycle after the address was taken."""
    m, r = checker.m, checker.block.bus.r
    asked, word = Signal(name="asked"), Signal(registers.address_bits - 2, name="read_word")
    data, response = Signal(32, name="read_data"), Signal(2, name="read_response")
    words: list[Value] = [Const(0, 32)] * (1 << len(word))
    for item in registers:
        words[item.offset // WORD] = values[item.name]
    m.d.sync += asked.eq(checker.moves("bus_ar"))
    with m.If(checker.moves("bus_ar")):
        m.d.sync += word.eq(checker.payload("bus_ar").address[2:])
    with m.If(asked):
        known = Cat(word == item.offset // WORD for item in registers).any()
        m.d.sync += [data.eq(Array(words)[word]), response.eq(Mux(known, OKAY, SLVERR))]
    checker.rule("read", ~r.valid | ((r.payload.data == data) & (r.payload.response == response)))
