"""Rules of `requantize`, a pipeline whose stages move together."""

from __future__ import annotations

from ....golden.stream.values.requantize import RequantizeSpec
from ...formal.pipeline import check_pipeline

SPEC = RequantizeSpec(lanes=1)
CUT = ("multipliers", "memories")
check = check_pipeline
