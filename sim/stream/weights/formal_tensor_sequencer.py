"""Rules of `tensor_sequencer`: each tensor of an instruction is told once on each stream, and no word is left."""

from __future__ import annotations

from amaranth.hdl import Cat, Signal, Value

from ....golden.stream.instruction import Kind
from ....golden.stream.weights.tensor_sequencer import TensorSequencerSpec
from ...formal.checker import Checker
from ...formal.inside import probe_of

SPEC = TensorSequencerSpec(lanes=8, columns=4, numbers=2)
CUT = ()
_LONGEST = 3


def check(checker: Checker, spec: TensorSequencerSpec) -> None:
    """Add the rules, for passes of short sentences."""
    given, taken = checker.payload("operation"), checker.moves("operation")
    checker.assume(given.longest <= _LONGEST)
    inside = probe_of(checker.block)
    own = given.kind.matches(Kind.LINEAR, Kind.NORM)
    rows = (given.kind == Kind.POSITIONS) | ((given.kind == Kind.ATTENTION) & given.rotary)
    gains: list[tuple[Value, int]] = [(taken & own, 1), (taken & own & given.biased, 1)]
    gains += [(taken & rows & given.longest[bit], 1 << bit) for bit in range(2)]
    idle, gives = inside.state("IDLE"), inside.state("GIVE")
    checker.lemma("idle", inside.idle == idle)
    left = Signal(range(_LONGEST + 1))
    checker.m.d.comb += left.eq(inside.bias + inside.main + inside.rows)
    checker.lemma("left", idle | (inside.rows <= _LONGEST) & ~((inside.bias | inside.main) & inside.rows.any()))
    checker.lemma("bias", idle | inside.main | ~inside.bias)
    checker.lemma("given", ~gives | left.any())
    for name in ("tensors", "beats"):
        port = checker.streams[name]
        owed = Signal(range(_LONGEST + 1), name=f"{name}_left")
        checker.m.d.comb += owed.eq(left - (gives & ~port.valid))
        checker.lemma(f"{name}_offered", gives | ~port.valid)
        counted = checker.balance(name, gains, [(port.valid, checker.moves(name), 1)], _LONGEST)
        checker.lemma(f"{name}_counted", counted == owed & ~idle.replicate(len(owed)))
    for name in ("offsets", "corrections"):
        checker.rule(f"{name}_offered", gives | ~checker.streams[name].valid)
    offers = Cat(checker.streams[name].valid for name in checker.outputs)
    checker.rule("one_instruction", ~checker.streams["operation"].ready | ~offers.any())
