"""Rules of `tensor_sequencer`: each output stream announces each tensor of an instruction once."""

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
    """Assumes short sentences."""
    operation, taken = checker.payload("operation"), checker.moves("operation")
    checker.assume(operation.longest <= _LONGEST)
    inside = probe_of(checker.block)
    has_tensors = operation.kind.matches(Kind.LINEAR, Kind.NORM)
    rows = (operation.kind == Kind.POSITIONS) | ((operation.kind == Kind.ATTENTION) & operation.rotary)
    gains: list[tuple[Value, int]] = [(taken & has_tensors, 1), (taken & has_tensors & operation.biased, 1)]
    gains += [(taken & rows & operation.longest[bit], 1 << bit) for bit in range(2)]
    idle, gives = inside.state("IDLE"), inside.state("GIVE")
    checker.lemma("idle", inside.idle == idle)
    remaining = Signal(range(_LONGEST + 1))
    checker.m.d.comb += remaining.eq(inside.bias + inside.main + inside.rows)
    checker.lemma("left", idle | (inside.rows <= _LONGEST) & ~((inside.bias | inside.main) & inside.rows.any()))
    checker.lemma("bias", idle | inside.main | ~inside.bias)
    checker.lemma("given", ~gives | remaining.any())
    for name in ("tensors", "beats"):
        port = checker.streams[name]
        pending = Signal(range(_LONGEST + 1), name=f"{name}_left")
        checker.m.d.comb += pending.eq(remaining - (gives & ~port.valid))
        checker.lemma(f"{name}_offered", gives | ~port.valid)
        counted = checker.balance(name, gains, name, _LONGEST)
        checker.lemma(f"{name}_counted", counted == pending & ~idle.replicate(len(pending)))
    for name in ("offsets", "corrections"):
        checker.rule(f"{name}_offered", gives | ~checker.streams[name].valid)
    offers = Cat(checker.streams[name].valid for name in checker.outputs)
    checker.rule("one_instruction", ~checker.streams["operation"].ready | ~offers.any())
