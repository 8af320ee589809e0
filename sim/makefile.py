"""Wrapper of Verilator's makefile: all designs share the precompiled header of Verilator's runtime.

Verilator precompiles two headers for each design. Nearly all of that time goes into Verilator's runtime headers, which
are equal for every design: `sim.compiled.objects` caches the result.
"""

from __future__ import annotations

from pathlib import Path

_KINDS = {"fast": "$(OPT_FAST)", "slow": "$(OPT_SLOW)"}
"""Verilator's kinds of sources with their optimisation; each needs a precompiled header."""
# `private`: the rule that compiles the header does not inherit the setting
_MAKEFILE = "\n".join(
    [
        "override VK_PCH_H = runtime",
        *(f"override VK_PCH_I_{kind.upper()} = -include runtime.{kind}" for kind in _KINDS),
        "include Vtop.mk",
        "$(VK_USER_OBJS): runtime.fast.gch",
        "$(VK_USER_OBJS): private CPPFLAGS += $(VK_PCH_I_FAST)",
        *(
            f"runtime.{kind}.gch:\n"
            f"\t$(OBJCACHE) $(CXX) {optimised} $(CXXFLAGS) $(CPPFLAGS) -x c++-header -o $@ "
            "$(VERILATOR_ROOT)/include/verilated.h"
            for kind, optimised in _KINDS.items()
        ),
        "",
    ]
)


def make_command(cxx: str, folder: Path) -> tuple[str, ...]:
    """Command that compiles Verilator's output in `folder`; variables and targets may follow.

    Writes the makefile and its inputs; the command must run in `folder`.
    """
    (folder / "shared.mk").write_text(_MAKEFILE, encoding="utf-8")
    for kind in _KINDS:  # fallback if the compiler rejects the precompiled header
        (folder / f"runtime.{kind}").write_text('#include "verilated.h"\n', encoding="utf-8")
    return "make", "-j", "2", "-f", "shared.mk", f"CXX={cxx}", f"LINK={cxx}"
