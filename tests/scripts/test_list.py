"""`fabtune list`: every block with its parameters and presets."""

import json

from fabtune.golden.registry import BLOCKS


def test_list_names_every_block_with_its_parameters(fabtune):
    status, out, _ = fabtune("list", "--json")
    listing = json.loads(out)
    assert status == 0
    assert list(listing) == list(BLOCKS)
    assert listing["pezo"]["parameters"]["scale.urng.bits"] == 8
    assert set(listing["pezo"]["presets"]) == {"pool", "otf8", "otf14"}
    status, out, _ = fabtune("list")
    assert status == 0
    assert all(name in out for name in BLOCKS)
