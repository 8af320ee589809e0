"""Rules of `elementwise`, a pipeline moving as a whole."""

from __future__ import annotations

from ....golden.stream.values.elementwise import ElementwiseSpec
from ...formal.pipeline import check_pipeline

SPEC = ElementwiseSpec(lanes=1)
CUT = ("multipliers", "memories")
check = check_pipeline
