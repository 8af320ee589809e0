"""Makefile around Verilator's own: all designs share the precompiled header of Verilator's runtime.

Verilator precompiles two headers for each design. To read those of its runtime takes nearly all of that time, and they
are the same for every design: `sim.compiled.objects` keeps what the compiler makes of them.
"""

from __future__ import annotations

from pathlib import Path

_KINDS = {"fast": "$(OPT_FAST)", "slow": "$(OPT_SLOW)"}
"""Verilator's kinds of sources, with their optimisation: a header is precompiled for each."""
# `private`: the precompiled header is made without itself
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
    """Command line that compiles what Verilator wrote into a folder, with a compiler; variables and targets may follow.

    The command runs in that folder, in which a makefile and what it reads are written now.
    """
    (folder / "shared.mk").write_text(_MAKEFILE, encoding="utf-8")
    for kind in _KINDS:  # for a compiler that does not take what is precompiled
        (folder / f"runtime.{kind}").write_text('#include "verilated.h"\n', encoding="utf-8")
    return "make", "-j", "2", "-f", "shared.mk", f"CXX={cxx}", f"LINK={cxx}"
