"""Rules of `activation_function`, a pipeline whose stages move together."""

from __future__ import annotations

from ....golden.stream.values.activation_function import ActivationFunctionSpec
from ...formal.pipeline import check_pipeline

SPEC = ActivationFunctionSpec(lanes=1)
CUT = ("multipliers", "memories")
check = check_pipeline
