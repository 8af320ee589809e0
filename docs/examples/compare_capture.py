# %% [markdown]
# # Comparing a capture with golden
#
# A board's logic analyser or any simulator gives a table of wires. `fabtune compare` (and the functions below) say
# whether these are golden's numbers and, if not, where they first differ. The "board" here is the golden model itself,
# with a late start and a flipped bit.

# %%
from pathlib import Path

import numpy as np

from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.verilog import emit
from fabtune.sim.captures.capture import read_capture
from fabtune.sim.captures.compare import compare

spec = UrngSpec(n=7)
wires = emit(spec).ports
folder = Path("build/examples")
folder.mkdir(parents=True, exist_ok=True)


def capture(name: str, words: np.ndarray) -> Path:
    """Write words as a table with a column a wire, in hexadecimal, as an analyser exports it."""
    path = folder / name
    stream, wire = spec.streams()["o"], wires["o"].wires[0]
    rows = stream.pack({"number": words}, wire.fields, wire.align)
    lines = [f"{wires['o'].valid},{wires['o'].ready},{wire.name}", *(f"1,1,{row:x}" for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


# %% [markdown]
# All numbers from reset on agree:

# %%
words = spec.words_at(np.arange(300))
result = compare(spec, read_capture(capture("right.csv", words), spec, wires))
print(result.compared, "numbers compared,", result.mismatches, "differ")
assert result.passed

# %% [markdown]
# The analyser was triggered 40 words late. The comparison fails, but finds where the capture starts:

# %%
late = read_capture(capture("late.csv", words[40:]), spec, wires)
result = compare(spec, late)
print(result.mismatches, "differ:", result.hint)
assert not result.passed
assert compare(spec, late, skip=40).passed

# %% [markdown]
# A flipped bit in word 123, lane 5, is shown as integer, bit pattern and value, with its neighbours:

# %%
broken = words.copy()
broken[123, 5] ^= 0b1000
result = compare(spec, read_capture(capture("broken.csv", broken), spec, wires))
assert result.first is not None
print("\n".join(result.first.lines()))
assert (result.first.word, result.first.lane, result.mismatches) == (123, 5, 1)
