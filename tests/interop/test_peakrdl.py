"""The cores' SystemRDL through PeakRDL's generators: the registers equal fabtune's header and IP-XACT."""

import re
from xml.etree import ElementTree as ET

import pytest
from peakrdl_cheader.exporter import CHeaderExporter
from peakrdl_html import HTMLExporter
from peakrdl_ipxact import IPXACTExporter
from register_model import elaborated

from ..small_cores import instantft, zostream, zotrain

DIGEST = "(?:_[A-Z0-9_]*_[0-9A-F]{8})?"
"""Digest, as a regular expression, that PeakRDL appends to the name of a type that is not reused."""
CORES = {"instantft": instantft(), "zotrain": zotrain(), "zostream": zostream()}


def described(name, folder):
    """Elaborate the description of a core."""
    (file,) = (one for one in CORES[name].documents() if one.endswith(".rdl"))
    (folder / file).write_text(CORES[name].documents()[file])
    return elaborated(folder / file)


def own_macros(name):
    """Macros of fabtune's header, without the prefix, with values."""
    (file,) = (one for one in CORES[name].documents() if one.endswith(".h"))
    found = re.findall(r"#define (\w+) (0x[0-9A-F]+|\d+)u", CORES[name].documents()[file])
    prefix = f"{CORES[name].registers.name.upper()}_"
    return {macro.removeprefix(prefix): int(value, 0) for macro, value in found}


@pytest.mark.parametrize("name", CORES)
def test_the_header_has_the_same_offsets_masks_and_resets(name, tmp_path):
    top, registers = described(name, tmp_path), CORES[name].registers.map
    CHeaderExporter().export(top, path=str(tmp_path / "peak.h"))
    text = (tmp_path / "peak.h").read_text()
    own = own_macros(name)
    kind = top.inst_name.upper()
    for register in registers:
        assert own[register.name.upper()] == register.offset
        for field in register.fields:
            macro = f"{kind}__{register.name.upper()}{DIGEST}__{field.name.upper()}"
            values = dict(re.findall(rf"#define {macro}_(bm|bp|bw|reset) (\w+)", text))
            assert int(values["bm"], 0) == own[f"{register.name.upper()}_{field.name.upper()}_MASK"] == field.mask
            assert int(values["bp"], 0) == own[f"{register.name.upper()}_{field.name.upper()}_SHIFT"] == field.low
            assert int(values["reset"], 0) == register.reset >> field.low & (1 << field.width) - 1
    offset, offsets = 0, {}
    for word, gap in re.findall(
        r"uint32_t (\w+);|uint8_t RESERVED_\w+\[(\w+)\];", text.rpartition("typedef struct")[2]
    ):
        if word:
            offsets[word] = offset
        offset += 4 if word else int(gap, 0)
    assert offsets == {one.name: one.offset for one in registers}


@pytest.mark.parametrize("name", CORES)
def test_ip_xact_has_the_same_registers(name, tmp_path):
    IPXACTExporter().export(described(name, tmp_path), str(tmp_path / "peak.xml"))
    root = ET.parse(tmp_path / "peak.xml").getroot()
    space = root.tag.partition("}")[0] + "}"
    shown = [
        (one.find(f"{space}name").text, int(one.find(f"{space}addressOffset").text.replace("'h", "0x"), 0))
        for one in root.iter(f"{space}register")
    ]
    assert shown == [(one.name, one.offset) for one in CORES[name].registers.map]


@pytest.mark.parametrize("name", CORES)
def test_the_pages_are_made(name, tmp_path):
    HTMLExporter().export(described(name, tmp_path), str(tmp_path / "pages"))
    assert (tmp_path / "pages" / "index.html").is_file()
