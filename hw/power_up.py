"""Random power-up contents of RAMs and of registers without reset, in simulation of emitted Verilog."""

from __future__ import annotations

import re

PLUSARG = "fabtune_power_up"
"""Simulation argument: ``+fabtune_power_up=N`` is the seed of power-up contents; 0 gives zeros."""
DEFAULT_SEED = 1
"""Seed of a simulation without the argument."""
_HEADER = f"""\
// In simulation, RAMs and registers without reset begin with random contents, as no result may depend on them.
// The argument +{PLUSARG}=N is the seed, {DEFAULT_SEED} without it; 0 gives zeros. Synthesis sees none of it.
"""
"""Comment at the beginning of a file with this code."""

_DRAWN = 32
"""Number of bits in a draw, the generator's whole state."""
_AT_ONCE = 2048
"""Maximum draws in a call: Verilator copies the task for each call, and all tools accept vectors of 2**16 bits."""
_RAM = re.compile(r"^  reg (?:\[(\d+):0\] )?(\S+) +\[(\d+):0\];$", re.MULTILINE)
_REGISTER = re.compile(r"^  reg (?:\[(\d+):0\] )?(\S+) ?;$", re.MULTILINE)
_CLOCKED = re.compile(r"^ {4,}(?:if .*\) |else )?(\S+?) *(?:\[[^]]*\] *)?<= ", re.MULTILINE)
_WORD = re.compile(r"^    (\S+?) *\[\d+\] = ", re.MULTILINE)
_VALUE = re.compile(r"^    (\S+) = ", re.MULTILINE)

_BLOCK = """\
`ifndef SYNTHESIS
  // synthesis translate_off
  reg [31:0] power_up_state;
  reg [{last}:0] power_up_unused;
  function automatic [31:0] power_up_step;
    /* verilator no_inline_task */
    input [31:0] power_up_before;
    begin
      power_up_step = power_up_before ^ (power_up_before << 13);
      power_up_step = power_up_step ^ (power_up_step >> 17);
      power_up_step = power_up_step ^ (power_up_step << 5);
    end
  endfunction
  task power_up_draw;
    input integer power_up_parts;
    integer power_up_at;
    for (power_up_at = 0; power_up_at < power_up_parts; power_up_at = power_up_at + 1) begin
      power_up_state = power_up_step(power_up_state);
      power_up_unused[32 * power_up_at +: 32] = power_up_state;
    end
  endtask
  initial begin : power_up
    integer {integers};
    reg [1023:0] power_up_path;
    if ($value$plusargs("{plusarg}=%d", power_up_state) == 0) power_up_state = {seed};
    $sformat(power_up_path, "%m");
    if (power_up_state != 0)
      for (power_up_part = 0; power_up_part < 32; power_up_part = power_up_part + 1)
        power_up_state = power_up_step(power_up_state ^ power_up_path[32 * power_up_part +: 32]);
{statements}  end
  // synthesis translate_on
`endif
"""


def power_up_seed(seed: int) -> int:
    """Nonzero seed of power-up contents, for the seed, 0 or more, of a simulation."""
    return seed % ((1 << 32) - 1) + 1


def power_up_argument(seed: int) -> str:
    """Argument of a simulation that gives the seed of power-up contents."""
    return f"+{PLUSARG}={seed}"


def with_power_up(body: str) -> str:
    """Add random initial values, in simulation only, to RAMs without contents and registers without an initial value.

    `body` holds modules as Yosys writes them, with initial values in ``initial`` statements. Without this code
    simulators read unknown values, or equal values in every run. Synthesis must ignore it, as an UltraRAM has no
    initial contents; tools that do not define the standard macro obey the comment. The generator is an explicit
    xorshift, because `$random` differs between simulators. Zero is its fixed point, so seed 0 gives zeros. Each
    instance mixes its path into the seed.
    """
    filled = re.sub(
        r"^module .*?^(?=endmodule$)", lambda match: _module(match[0]), body, flags=re.MULTILINE | re.DOTALL
    )
    return body if filled == body else _HEADER + filled


def _module(text: str) -> str:
    """Add random initial values to one module, given without its last line."""
    clocked, words, values = (set(known.findall(text)) for known in (_CLOCKED, _WORD, _VALUE))
    statements: list[str] = []
    draws: list[int] = []
    rams = [(high, name, last) for high, name, last in _RAM.findall(text) if name not in words]
    for high, name, last in rams:
        draws.append(_draws(high))
        words_of = f"for (power_up_word = 0; power_up_word < {int(last) + 1}; power_up_word = power_up_word + 1)"
        drawn = f"power_up_draw({draws[-1]}); {name} [power_up_word] = power_up_unused[{high or 0}:0];"
        statements.append(f"    {words_of} begin {drawn} end\n")
    registers = [(high, name) for high, name in _REGISTER.findall(text) if name in clocked and name not in values]
    while registers:
        taken, values_of = 0, []
        while registers and (not taken or taken + _draws(registers[0][0]) <= _AT_ONCE):
            high, name = registers.pop(0)
            first = _DRAWN * taken
            values_of.append(f"    {name} = power_up_unused[{first + int(high or 0)}:{first}];\n")
            taken += _draws(high)
        draws.append(taken)
        statements += [f"    power_up_draw({taken});\n", *values_of]
    if not statements:
        return text
    return text + _BLOCK.format(
        last=max(draws) * _DRAWN - 1,
        plusarg=PLUSARG,
        seed=DEFAULT_SEED,
        integers="power_up_part, power_up_word" if rams else "power_up_part",
        statements="".join(statements),
    )


def _draws(high: str) -> int:
    """Number of random draws for a value whose highest bit has this number; an empty string counts as 0."""
    return int(high or 0) // _DRAWN + 1
