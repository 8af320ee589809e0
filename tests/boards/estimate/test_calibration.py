"""Estimates of published cores against the figures that their authors got from Vivado.

The cores are other people's work and are not kept here. docs/estimate.md says where they are.
"""

import os
from pathlib import Path

import pytest

from fabtune.boards.estimate.estimate import estimate_verilog

VARIABLE = "FABTUNE_CALIBRATION"
PICORV32 = ("picorv32.v", "synth_area_top.v")
TREEGRNG = ("topgrng8_8.sv", "simpledecisiontree8.sv", "lfsr.sv", "comparator.sv")
AXI_LITE = ("axi_lite_slave_v1_0.v",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "top", "luts", "flip_flops", "lut_error", "ff_error"),
    [
        (PICORV32, "top_small", 761, 442, 0.10, 0.05),
        (PICORV32, "top_regular", 917, 583, 0.10, 0.05),
        (PICORV32, "top_large", 2019, 1085, 0.10, 0.05),
        (TREEGRNG, "compGRNG", 130, 68, 0.05, 0.05),
        (AXI_LITE, "axi_lite_slave_v1_0", 49, 83, 0.10, 0.05),
    ],
)
def test_published_core(
    names: tuple[str, ...], top: str, luts: int, flip_flops: int, lut_error: float, ff_error: float
) -> None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"set {VARIABLE} to a folder with the cores that docs/estimate.md lists")
    files = [next(iter(sorted(Path(folder).rglob(name))), None) for name in names]
    missing = [name for name, file in zip(names, files, strict=True) if file is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not in {folder}")
    found = estimate_verilog([file for file in files if file], top).resources
    assert found["lut"] == pytest.approx(luts, rel=lut_error)
    assert found["ff"] == pytest.approx(flip_flops, rel=ff_error)
