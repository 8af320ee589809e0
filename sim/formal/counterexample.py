"""Write the counterexample of a rule: waveform, netlist, and a failing Verilog test bench."""

from __future__ import annotations

from pathlib import Path

from ...hw import yosys
from .checker import BROKEN


def write_counterexample(folder: Path, top: str, output: int, rule: str, keep: Path, preparation: list[str]) -> None:
    """Write the counterexample of a rule: ``RULE.vcd``, ``RULE.v`` and ``RULE_tb.v`` in folder `keep`.

    The test bench ends with ``$fatal`` in the cycle that breaks the rule, and normally otherwise. `folder` contains
    ``design.il``, ``model.aig``, ``model.map`` and the witness ``OUTPUT.cex``; `preparation` holds the Yosys commands
    that derive the module of ``model.map`` from ``design.il``.
    """
    keep.mkdir(parents=True, exist_ok=True)
    witness = (folder / f"{output}.cex").read_text(encoding="utf-8").splitlines()
    cycles = [line for line in witness[1:] if set(line) <= {"0", "1"} and line]
    # registers that the engine removed are missing; all registers start at 0
    registers = (folder / "model.aig").read_bytes().split(maxsplit=4)[3]
    start = "0" * int(registers)
    (folder / "witness.aiw").write_text("\n".join(["1", "b0", start, *cycles, "."]) + "\n", encoding="utf-8")
    yosys.run(
        [
            *preparation,
            "write_verilog -noattr netlist.v",
            "sim -clock clk -r witness.aiw -map model.map -vcd waves.vcd",
        ],
        folder,
    )
    (folder / "waves.vcd").rename(keep / f"{rule}.vcd")
    (folder / "netlist.v").rename(keep / f"{rule}.v")
    inputs = _inputs(folder / "model.map")
    (keep / f"{rule}_tb.v").write_text(_bench(top, rule, inputs, cycles), encoding="utf-8")


def _inputs(wires: Path) -> dict[str, dict[int, int]]:
    """Position of each input bit in the witness, by input name and bit number."""
    positions: dict[str, dict[int, int]] = {}
    for line in wires.read_text(encoding="utf-8").splitlines():
        kind, place, bit, name = line.split()[:4] if line.startswith("input ") else ("", "0", "0", "")
        if kind:
            positions.setdefault(name, {})[int(bit)] = int(place)
    return positions


def _bench(top: str, rule: str, inputs: dict[str, dict[int, int]], cycles: list[str]) -> str:
    driven = {name: bits for name, bits in inputs.items() if name != "clk"}
    lines = [
        f"// fails: rule {rule} is broken in cycle {len(cycles) - 1}",
        "`timescale 1ns/1ps",
        "module bench;",
        "  reg clk = 0;",
        f"  wire {BROKEN}{rule};",
        *(f"  reg [{max(bits)}:0] {_escaped(name)};" for name, bits in driven.items()),
        f"  {top} dut(",
        *(f"    .{_escaped(name)}({_escaped(name)})," for name in driven),
        f"    .{BROKEN}{rule}({BROKEN}{rule}),",
        "    .clk(clk)",
        "  );",
        "  initial begin",
    ]
    for number, cycle in enumerate(cycles):
        for name, bits in driven.items():
            value = "".join(cycle[bits[bit]] if bit in bits else "0" for bit in range(max(bits), -1, -1))
            lines.append(f"    {_escaped(name)}= {len(value)}'b{value};")
        lines += [
            f'    #1 if ({BROKEN}{rule}) $fatal(1, "rule {rule} is broken in cycle {number}");',
            "    clk = 1; #1 clk = 0;",
        ]
    return "\n".join([*lines, "    $finish;", "  end", "endmodule", ""])


def _escaped(name: str) -> str:
    """A Verilog escaped identifier, with its final space."""
    return f"\\{name} "
