"""Estimate what a design occupies on an UltraScale+ device, without vendor tools.

Yosys synthesises; this module corrects what it is known to count differently from Vivado. How well that works
is in docs/estimate.md.
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
        ``lut`` (LUT memories included) and ``ff`` as Yosys mapped them, then the count of every primitive.
    logic_levels : int
        Most LUTs on any path between registers, memories and ports.
    carry_cells : int
        Most CARRY8 cells on any such path.
    slowest : TimingPath
        The slowest of them by a model of delays.
    with_reset : int
        Flip-flops with a set or reset, of ``raw["ff"]``.
    fan_outs : list of FanOut
        The nets with most loads, clocks excluded.
    """

    resources: dict[str, float]
    raw: dict[str, int]
    logic_levels: int
    carry_cells: int
    slowest: TimingPath
    with_reset: int
    fan_outs: list[FanOut]


def estimate_spec(spec: Spec, device: Device | None = None) -> Estimate:
    """Estimate one of fabtune's own blocks on a device, by default one with all kinds of memory."""
    return estimate_emitted(emit(spec, device=device))


def estimate_emitted(emitted: Emitted) -> Estimate:
    """Estimate the Verilog that was emitted: what Vivado gets.

    The result is cached by the text, the estimator's code and the version of Yosys.
    """
    return _cached(emitted.top, emitted.verilog, from_text)


def estimate_rtlil(rtlil: str, top: str) -> Estimate:
    """Estimate a part of which there is no Verilog: RTLIL text, as Amaranth's ``rtlil.convert`` gives it.

    The result is cached, see `estimate_emitted`.
    """
    return _cached(top, rtlil, from_rtlil)


def _cached(top: str, text: str, synthesise: Callable[[str, str], Counts]) -> Estimate:
    passes = (Path(synthesis_passes.__file__), Path(arithmetic_passes.__file__))
    own = source_digest(Path(__file__).parent, Path(yosys.__file__), *passes)
    key = digest_of(top, text, own, *files().values(), package_version("pyosys"))

    def make(entry: Path) -> None:
        entry.write_text(json.dumps(asdict(_estimate(synthesise(text, top)))))

    return _estimate(json.loads(cached("estimates", f"{top}-{key}.json", make).read_text()))


def estimate_verilog(
    sources: Sequence[Path], top: str, parameters: Mapping[str, str] | None = None, includes: Sequence[Path] = ()
) -> Estimate:
    """Estimate anyone's Verilog or SystemVerilog, as far as Yosys reads it.

    Parameters
    ----------
    sources : sequence of Path
        Files.
    top : str
        Top module.
    parameters : mapping of str to str, optional
        Parameters of the top module that differ from its defaults: numbers, or strings in quotes.
    includes : sequence of Path, optional
        Folders of files that the sources include; the folder of a source is searched first.
    """
    return _estimate(from_verilog(sources, top, parameters, includes))


def _estimate(counts: Counts) -> Estimate:
    fan_outs = [FanOut(**one) for one in counts["fan_outs"]]
    return Estimate(**counts | {"slowest": TimingPath(**counts["slowest"]), "fan_outs": fan_outs})
