"""Let Yosys read the contents of memories from files: word by word they take it longer than the rest of a core."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

_WORD = r" *\[\d+\] = \d+'h[0-9a-f]+;\n"
# as Yosys writes the contents of one memory
_CONTENTS = re.compile(rf"^  initial begin\n((?:    (\S+){_WORD})(?:    \2{_WORD})*)  end\n", re.MULTILINE)
_PARTS = re.compile(r"\[(\d+)\] = \d+'h(\w+);")


def contents_in_files(verilog: str, folder: Path, prefix: str) -> str:
    """Replace each memory's list of words by ``$readmemh`` of a file.

    Parameters
    ----------
    verilog : str
        Text. Only what has the form in which Yosys writes contents is replaced.
    folder : Path
        Folder for the files, from which Yosys is run.
    prefix : str
        What their names begin with.

    Returns
    -------
    str
        Text of the same design.
    """
    numbers = itertools.count(1)

    def read_from_file(found: re.Match[str]) -> str:
        name = f"{prefix}{next(numbers)}.hex"
        # in order: Yosys stops at the last word of the memory, and of two for one address the later one counts
        words = {int(address): word for address, word in _PARTS.findall(found[1])}
        lines = (f"@{address:x} {words[address]}\n" for address in sorted(words))
        (folder / name).write_text("".join(lines), encoding="utf-8")
        return f'  initial $readmemh("{name}", {found[2]} );\n'

    return _CONTENTS.sub(read_from_file, verilog)
