"""List of a package's files."""

import json

import pytest

from fabtune.boards.manifest import (
    MANIFEST,
    SETTINGS,
    EarlierPackage,
    digest,
    earlier_package,
    manifest,
    read_manifest,
)


def test_a_manifest_lists_all_files():
    files = {"a b.txt": "1", "ip/x.v": b"2"}
    assert read_manifest(manifest(files)) == {"a b.txt": digest("1"), "ip/x.v": digest("2")}


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ('{"mhz": 200.0, "block": "zotrain", "targets": ["vitis"]}', ("vitis",)),
        ('{"mhz": 100, "block": "zotrain", "targets": ["vitis"]}', None),
        ('{"block": "zotrain"}', None),
        ('{"mhz": 200, "block": "zotrain", "targets": 5}', None),
        ("[]", None),
        ("{", None),
        (b"\xff", None),
    ],
)
def test_targets_are_those_of_a_package_of_the_same_settings(tmp_path, settings, targets):
    new = json.dumps({"block": "zotrain", "mhz": 200, "targets": ["linux"]})
    assert earlier_package(tmp_path, new) is None
    (tmp_path / SETTINGS).write_bytes(settings if isinstance(settings, bytes) else settings.encode())
    (tmp_path / MANIFEST).write_text(manifest({"a.v": "1"}))
    assert earlier_package(tmp_path, new) == EarlierPackage({"a.v": digest("1")}, targets)


def test_a_name_outside_the_folder_is_not_read():
    files = dict.fromkeys(("a.v", "../x", "/etc/x", "ip/../../x", "ip/..x"), "1")
    assert {*read_manifest(manifest(files))} == {"a.v", "ip/..x"}
