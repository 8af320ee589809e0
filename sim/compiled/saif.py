"""SAIF, the Switching Activity Interchange Format: toggles of a module's nets, and the file of its ports."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ...golden.errors import UserError

ROOT = "TOP"
"""Instance around the module in Verilator's files."""

_LINE = re.compile(
    r"^\s*(?:\((?:INSTANCE (?P<instance>\S+)|NET)"
    r"|\((?P<net>\S+?)(?:\\\[(?P<bit>\d+)\\\])? \(T0 (?P<low>\d+)\) .*\(TC (?P<changes>\d+)\)\)|(?P<end>\)))$",
    re.MULTILINE,
)
_DURATION = re.compile(r"^\(DURATION (\d+)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Saif:
    """Activity of the nets of a module and its submodules.

    Parameters
    ----------
    head : str
        Text of the lines before the first instance.
    module : str
    duration : int
        Time in the file's unit.
    toggles : dict of str to tuple of int
        Toggles of each bit, least significant first, by net name; for inner nets by path, levels separated by dots.
    lines : dict of str to tuple of str
        The file's line of each bit.
    """

    head: str
    module: str
    duration: int
    toggles: dict[str, tuple[int, ...]]
    lines: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, text: str, module: str) -> Saif:
        """Read Verilator's SAIF of a module; a missing module or duration is a `UserError`."""
        head, _, body = text.partition("(INSTANCE ")
        _, found, nets = body.partition(f"(INSTANCE {module}\n")
        duration = _DURATION.search(head)
        if not found or not duration:
            raise UserError(f"SAIF without the activity of {module}: the simulation has not ended")
        bits: dict[str, dict[int, tuple[int, str]]] = {}
        places = [""]
        for one in _LINE.finditer(nets):
            if net := one["net"]:
                line, changes = one[0].strip(), one["changes"]
                # Verilator counts a toggle from an assumed initial 0: a net that is always 1 has not toggled
                if not int(one["low"]):
                    line, changes = line.replace(f"(TC {changes})", "(TC 0)"), "0"
                bits.setdefault(f"{places[-1]}{net}", {})[int(one["bit"] or 0)] = int(changes), line
            elif not one["end"]:
                places.append(f"{places[-1]}{one['instance']}." if one["instance"] else places[-1])
            elif len(places) > 1:
                places.pop()
            else:
                break  # the end of the module
        by_net = {name: [one for _, one in sorted(found.items())] for name, found in bits.items()}
        return cls(
            head.rstrip(),
            module,
            int(duration[1]),
            {name: tuple(toggles for toggles, _ in all_bits) for name, all_bits in by_net.items()},
            {name: tuple(line for _, line in all_bits) for name, all_bits in by_net.items()},
        )

    def only(self, nets: Collection[str]) -> str:
        """Format the file with these nets only."""
        lines = [f"   {line}" for name in nets for line in self.lines[name]]
        return "\n".join(
            [self.head, f"(INSTANCE {ROOT}", f" (INSTANCE {self.module}", "  (NET", *lines, "  )", " )", ")", ")", ""]
        )
