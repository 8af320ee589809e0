"""Estimate a design's resources and path lengths on UltraScale+ without vendor tools.

Yosys synthesises; known differences from Vivado's counts are corrected. docs/estimate.md gives the errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...golden.block import Spec
from ...golden.cache import cached, digest_of, package_version, source_digest
from ...golden.memories.plan import Device
from ...hw import arithmetic_passes, synthesis_passes, yosys
from ...hw.verilog import Emitted, emit
from .fanout import FanOut
from .flow import files
from .paths import TimingPath
from .synthesis import Counts, from_rtlil, from_text, from_verilog


@dataclass(frozen=True)
class Estimate:
    """Expected resources and path lengths of a design.

    Attributes
    ----------
    resources : dict of str to float
        Exactly ``lut``, ``ff``, ``bram36``, ``uram`` and ``dsp``. Half a ``bram36`` is one 18 Kib memory.
    raw : dict of str to int
        ``lut`` (LUT memories included) and ``ff`` as mapped by Yosys, then the count of every primitive.
    logic_levels, carry_cells : int
        Most LUTs and most CARRY8 cells on any path between registers, memories and ports.
    slowest : TimingPath
        Slowest path by the delay model.
    with_reset : int
        Flip-flops of ``raw["ff"]`` with a set or reset.
    fan_outs : list of FanOut
        Nets with most loads, clocks excluded.
    """

    resources: dict[str, float]
    raw: dict[str, int]
    logic_levels: int
    carry_cells: int
    slowest: TimingPath
    with_reset: int
    fan_outs: list[FanOut]


def estimate_spec(spec: Spec, device: Device | None = None) -> Estimate:
    """Estimate a block of fabtune on a device, by default a device with all kinds of memory."""
    return estimate_emitted(emit(spec, device=device))


def estimate_emitted(emitted: Emitted) -> Estimate:
    """Estimate emitted Verilog, the text that Vivado gets.

    The result is cached by text, estimator code and Yosys version.
    """
    return _cached(emitted.top, emitted.verilog, from_text)


def estimate_rtlil(rtlil: str, top: str) -> Estimate:
    """Estimate RTLIL text from Amaranth's ``rtlil.convert``, for a submodule without Verilog; cached as by
    `estimate_emitted`.
    """
    return _cached(top, rtlil, from_rtlil)


def _cached(top: str, text: str, synthesise: Callable[[str, str], Counts]) -> Estimate:
    passes = (Path(synthesis_passes.__file__), Path(arithmetic_passes.__file__))
    estimator = source_digest(Path(__file__).parent, Path(yosys.__file__), *passes)
    key = digest_of(top, text, estimator, *files().values(), package_version("pyosys"))

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(asdict(_estimate(synthesise(text, top)))))

    return _estimate(json.loads(cached("estimates", f"{top}-{key}.json", make).read_text()))


def estimate_verilog(
    sources: Sequence[Path], top: str, parameters: Mapping[str, str] | None = None, includes: Sequence[Path] = ()
) -> Estimate:
    """Estimate any Verilog or SystemVerilog that Yosys reads.

    ``parameters`` override the top module's: numbers, or strings in quotes. ``includes`` are include folders; the
    folder of a source is searched first.
    """
    return _estimate(from_verilog(sources, top, parameters, includes))


def _estimate(counts: Counts) -> Estimate:
    fan_outs = [FanOut(**net) for net in counts["fan_outs"]]
    return Estimate(**counts | {"slowest": TimingPath(**counts["slowest"]), "fan_outs": fan_outs})
