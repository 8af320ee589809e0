"""Move memory contents into files: read from Verilog, they take Yosys longer than the rest of a core."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

_WORD = r" *\[\d+\] = \d+'h[0-9a-f]+;\n"
# contents of one memory, as Yosys writes them
_CONTENTS = re.compile(rf"^  initial begin\n((?:    (\S+){_WORD})(?:    \2{_WORD})*)  end\n", re.MULTILINE)
_PARTS = re.compile(r"\[(\d+)\] = \d+'h(\w+);")


def contents_in_files(verilog: str, folder: Path, prefix: str) -> str:
    """Verilog of the same design with each memory's list of words replaced by ``$readmemh`` of a file.

    Files go to ``folder``, where Yosys must run; names start with ``prefix``. Only contents in the form that Yosys
    writes are replaced.
    """
    numbers = itertools.count(1)

    def read_from_file(match: re.Match[str]) -> str:
        name = f"{prefix}{next(numbers)}.hex"
        # sorted, as Yosys stops at the memory's last word; a later word of the same address replaces an earlier one
        words = {int(address): word for address, word in _PARTS.findall(match[1])}
        lines = (f"@{address:x} {words[address]}\n" for address in sorted(words))
        (folder / name).write_text("".join(lines), encoding="utf-8")
        return f'  initial $readmemh("{name}", {match[2]} );\n'

    return _CONTENTS.sub(read_from_file, verilog)
