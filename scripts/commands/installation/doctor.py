"""`fabtune doctor`."""

from __future__ import annotations

import dataclasses
import sys

import click

from ...display import show_json, show_result, show_table
from ...options import SectionedCommand, as_json, option


@click.command(cls=SectionedCommand, short_help="Check which tools are installed, and in which version.")
@option(
    "--env", "env", is_flag=True, help='Print lines for a shell: eval "$(fabtune doctor --env)" puts Verilator on PATH.'
)
@as_json
def command(env: bool, as_json: bool) -> None:
    """Check which tools are installed, in which version, and how to install the others."""
    if env:
        from ....sim.tool_folder import shell_lines

        lines = shell_lines()
        show_result({"lines": lines}, as_json, lambda: lines)
        return
    from ...doctor import checks

    results = checks()
    if as_json:
        show_json({check.name: dataclasses.asdict(check) for check in results})
    else:
        rows = []
        for check in results:
            state = check.version or "yes" if check.found else "missing"
            rows.append((check.name, state, check.needed_for, "" if check.found else check.remedy))
        show_table(("tool", "version", "needed for", "what to type"), rows)
    sys.exit(1 if any(check.required and not check.found for check in results) else 0)
