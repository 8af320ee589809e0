"""Rules of `elementwise`, a pipeline whose stages move together."""

from __future__ import annotations

from ....golden.stream.values.elementwise import ElementwiseSpec
from ...formal.pipeline import check_pipeline

SPEC = ElementwiseSpec(lanes=1)
CUT = ("multipliers", "memories")
check = check_pipeline
