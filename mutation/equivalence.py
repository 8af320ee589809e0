"""Sequential equivalence of a block and a mutant for all inputs and all times, by a miter and the prover.

Differences invisible to neighbours are ignored: a payload is compared only while its `valid` is high, and inputs obey
the handshake rules. Memories too large for registers are cut on both sides: results are a shared free word, operands
are compared. This is sound, since memories with equal operands have equal results; a counterexample may be spurious.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..hw import yosys
from ..hw.verilog import Emitted
from ..sim.formal.checker import BROKEN
from ..sim.formal.prover import TOP, prove_text
from .channels import channels, valid_of
from .netlist_passes import OPEN_MEMORIES

MAPPED_BITS = 4096
"""Limit of memory bits for mapping to registers."""
_RULE = "difference"
_PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", re.MULTILINE)
_MEMORY = re.compile(r"^  memory width (\d+) size (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Equivalence:
    """Result of an equivalence proof: status, engine (see `prover.Proof`) and length of a distinguishing input, else 0.

    Open: no proof and no counterexample within the time, or a counterexample that depends on memory contents.
    """

    status: Literal["equivalent", "different", "open"]
    engine: str = ""
    cycles: int = 0


def equivalence(original: Emitted, mutant: Emitted, seconds: int) -> Equivalence:
    """Prove that a mutant equals the original, or find distinguishing inputs, within `seconds`.

    Both designs come from `faults.mutant` and have the same ports.
    """
    cut = sum(int(width) * int(size) for width, size in _MEMORY.findall(original.rtlil)) > MAPPED_BITS
    with tempfile.TemporaryDirectory(prefix="fabtune-miter-") as name:
        folder = Path(name)
        for role, design in (("gate", mutant), ("gold", original)):
            (folder / f"{role}.il").write_text(design.rtlil, encoding="utf-8")
        top = original.top
        opened = ["memory_collect", "memory_nordff", "opt_clean", OPEN_MEMORIES] if cut else []
        port_lists = []
        for role in ("gold", "gate"):  # one at a time: both modules have the same name at first
            read = [f"read_rtlil {role}.il", f"hierarchy -top {top}"]
            write = [f"rename {top} {role}", f"write_verilog -noattr {role}.v", f"write_rtlil {role}.il"]
            yosys.run([*read, *opened, *write], folder)
            port_lists.append(_PORT.findall((folder / f"{role}.v").read_text(encoding="utf-8")))
        ports, others = port_lists
        if sorted(ports) != sorted(others):  # the fault leaves a memory unused
            return Equivalence("open")
        (folder / "miter.v").write_text(_miter(original, ports), encoding="utf-8")
        yosys.run(
            [
                "read_rtlil gold.il",
                "read_rtlil gate.il",
                "read_verilog -sv -formal miter.v",
                f"hierarchy -top {TOP}",
                "proc",
                "write_rtlil miter.il",
            ],
            folder,
        )
        text = (folder / "miter.il").read_text(encoding="utf-8")
    proof = next(prove_text(text, [_RULE], [_RULE], seconds=seconds))
    if proof.status == "proved":
        return Equivalence("equivalent", proof.engine)
    return Equivalence("different", "", proof.cycles) if proof.status == "broken" and not cut else Equivalence("open")


def _miter(design: Emitted, ports: list[tuple[str, str, str]]) -> str:
    """Verilog miter: both designs on the same inputs, and an output that is high while they differ."""
    inputs = [(f"[{high or 0}:0]", name) for way, high, name in ports if way == "input"]
    outputs = [(f"[{high or 0}:0]", name) for way, high, name in ports if way == "output"]
    ways = {name: way for way, _, name in ports}
    seen_while = valid_of(design, ways)
    body = [f"  input {width} {name};" for width, name in inputs]
    body += [f"  wire {width} {side}_{name};" for side in ("gold", "gate") for width, name in outputs]
    for side in ("gold", "gate"):
        pins = [f".{name}({name})" for _, name in inputs] + [f".{name}({side}_{name})" for _, name in outputs]
        body.append(f"  {side} the_{side} ({', '.join(pins)});")
    differ = [
        f"gold_{name} != gate_{name}" + (f" && gold_{seen_while[name]}" if name in seen_while else "")
        for _, name in outputs
    ]
    body += [f"  output {BROKEN}{_RULE};", f"  assign {BROKEN}{_RULE} = {' || '.join(f'({item})' for item in differ)};"]
    resets = f"{design.reset} == {design.reset_level}"
    for number, item in enumerate(channel for channel in channels(design, ways) if channel.inward):
        offer = ", ".join((item.valid, *item.payload))
        width = "+".join(["1", *(f"$bits({name})" for name in item.payload)])
        body += [
            f"  reg [{width}-1:0] before{number} = 0;",
            f"  reg waits{number} = 0;",
            f"  always @(posedge {design.clock}) begin",
            f"    before{number} <= {{{offer}}};",
            f"    waits{number} <= {item.valid} && !gold_{item.ready} && !({resets});",
            "  end",
            f"  always @* assume (!waits{number} || {resets} || before{number} == {{{offer}}});",
        ]
    names = ", ".join([*(name for _, name in inputs), f"{BROKEN}{_RULE}"])
    return "\n".join([f"module {TOP} ({names});", *body, "endmodule", ""])
