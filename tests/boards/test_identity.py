"""Names and revisions of cores: distinct for distinct settings, consistent within a package."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.identity import design_name, revision
from fabtune.boards.packaging import core_package
from fabtune.boards.vivado.ip import catalogue_files
from fabtune.boards.vivado.ipxact import SPIRIT, XILINX
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.verilog import emit

from ..small_cores import DEEP, ONE_STAGE

SPECS = [ZotrainSpec(**settings) for settings in (ONE_STAGE, DEEP)]


def test_a_core_has_the_presets_name_or_its_signature_behind_its_own():
    spec = SPECS[0]
    assert design_name(spec, "left") == "zotrain_left"
    assert design_name(spec, "left", "tiny") == "zotrain_left"
    assert design_name(spec, None, "ds-cnn") == "zotrain_ds_cnn"
    assert design_name(spec) == f"zotrain_{spec.signature:08x}"
    assert design_name(UrngSpec()) == design_name(UrngSpec(), None, "any") == "urng"


@pytest.mark.parametrize("suffix", ["", "a-b", "a b", "ä"])
def test_a_suffix_is_the_end_of_a_name(suffix):
    with pytest.raises(UserError, match="is no end of a name"):
        design_name(SPECS[0], suffix)


def test_ips_of_different_settings_differ_in_name_and_revision():
    found = []
    for spec in SPECS:
        root = ET.fromstring(
            catalogue_files(spec, emit(spec, design_name(spec), BOARDS["kv260"].fabric))["ip/component.xml"]
        )
        vlnv = [root.findtext(f"{{{SPIRIT}}}{part}") for part in ("vendor", "library", "name", "version")]
        number = int(next(root.iter(f"{{{XILINX}}}coreRevision")).text)
        assert 0 < number == revision(spec) < 1 << 31
        found.append((vlnv, number))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_a_package_has_its_name_in_all_files():
    name, spec = "zotrain_mine", SPECS[0]
    files = core_package(spec, BOARDS["kv260"], mhz=187.5, name=name)
    named = {file for file in files if "zotrain" in file}
    types = {"registers/fabtune_zotrain.h", "registers/fabtune_zotrain.rdl", "registers/fabtune_zotrain.md"}
    # registers, and the programs that use them, do not depend on settings
    assert {file for file in named if name not in file} <= types | {
        "driver/fabtune_zotrain.h",
        "example/example_zotrain.c",
    }
    assert {f"ip/src/{name}.v", f"linux/{name}.dts", f"linux/{name}.bif", f"pynq/{name}.ipynb"} <= named
    assert json.loads(files["spec.json"])["name"] == name
    assert json.loads(files["pynq/fabtune_core.json"])["bindto"][0] == f"fabtune:cores:{name}:1.0"
    assert f"nk={name}:1:core" in files["vitis/link.cfg"]
    assert f'linux,uio-name = "{name}"' in files[f"linux/{name}.dts"]
    for file in (
        "vivado/system.tcl",
        "vivado/package_ip.tcl",
        "vitis/package_xo.tcl",
        "linux/Makefile",
        f"linux/{name}.bif",
    ):
        assert name in files[file], file
    for file in (
        "vivado/system.tcl",
        "vivado/synth_ooc.tcl",
        "vivado/package_ip.tcl",
        "vitis/package_xo.tcl",
        "vitis/link.cfg",
    ):
        assert not re.search(r"\bzotrain\b", re.sub(r"(?m)^#.*", "", files[file])), file
