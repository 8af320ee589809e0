"""Captures of a packaged core's monitor by Vivado's logic analyser, against golden."""

import dataclasses
import json
import re

import pytest
from click.testing import CliRunner

from fabtune.boards.board import BOARDS
from fabtune.boards.host.driver import Core
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.boards.vivado.debug import analyser_of
from fabtune.golden.errors import UserError
from fabtune.hw.verilog import emit
from fabtune.scripts.cli import main
from fabtune.sim.captures.updates import compare_capture, compare_updates, golden_updates, read_updates
from fabtune.sim.compiled.comparison import compiled_core, observable
from fabtune.sim.compiled.device import SimulatedDevice

from ...small_cores import OPTIONS, instantft, zostream, zotrain
from .monitor import WIRES, samples, stored, vivado_csv, widths_of, written

CORES = {
    "instantft": instantft(),
    "instantft, options": instantft(**OPTIONS),
    "zotrain": zotrain(),
    "zostream": zostream(),
}


@pytest.fixture(
    name="capture",
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow) for name in CORES],
)
def _capture(request, tmp_path_factory):
    """A core, and its package's monitor samples in a self-test, with widths of the wires."""
    spec = CORES[request.param]
    files = core_package(dataclasses.replace(spec, monitor=True), BOARDS["kv260"], ["vivado"])
    sampled, widths = samples(spec, files[f"ip/src/{spec.name}.v"], tmp_path_factory.mktemp("waves"))
    return spec, sampled, widths


@pytest.fixture(name="of_zotrain", scope="module")
def _of_zotrain():
    """Monitor samples of `zotrain` alone, from the monitored images; other tests compile the same core."""
    spec = CORES["zotrain"]
    device = SimulatedDevice(compiled_core(spec), limit=3_000_000)
    device.trace_image(golden_updates(spec)[0].before)
    selftest_of(spec).run(Core.on(spec, device))
    return written(device.traced_images), widths_of(emit(observable(spec)))


def changed(sampled, number, wire, bits):
    """Samples with changed bits in one wire of one sample."""
    at = WIRES.index(wire)
    row = list(sampled[number])
    row[at] ^= bits
    return [*sampled[:number], tuple(row), *sampled[number + 1 :]]


def test_a_capture_of_the_packaged_core_is_goldens(capture, tmp_path):
    spec, sampled, widths = capture
    updates = golden_updates(spec)
    for number, kept in enumerate((stored(sampled), sampled)):  # only what changes, or each cycle
        comparison = compare_capture(spec, vivado_csv(tmp_path / f"{number}.csv", kept, widths))
        assert comparison.passed
        assert comparison.compared >= sum((one.before != one.after).any() for one in updates)
    assert len(read_updates(tmp_path / "0.csv")) == len(updates)


def test_a_self_test_fills_the_capture_of_the_script(capture):
    """The capture contains a whole update."""
    spec, sampled, _ = capture
    observed = dataclasses.replace(spec, monitor=True)
    kept = stored(sampled)
    pins = emit(observed, device=BOARDS["kv260"].fabric).pins
    count = analyser_of(observed, pins, selftest_of(spec)).samples
    assert len(kept) // 4 < count <= len(kept)
    assert any(done for *_, done in kept[:count])


def test_each_changed_word_is_found(capture, tmp_path):
    spec, sampled, widths = capture
    kept = stored(sampled)
    written = [number for number, one in enumerate(kept) if one[0]]
    for number in written[:: max(1, len(written) // 9)]:
        lowest = (kept[number][0] & -kept[number][0]).bit_length() - 1
        broken = changed(kept, number, "data", 1 << 128 * lowest + 37)
        comparison = compare_capture(spec, vivado_csv(tmp_path / "c.csv", broken, widths))
        beat = kept[number][1] + lowest
        again = [one for one in kept[number + 1 :] if one[0] and one[1] == kept[number][1] and one[0] & 1 << lowest]
        end = next(at for at, one in enumerate(kept) if at >= number and one[3])
        if any(one in kept[number + 1 : end + 1] for one in again):
            continue  # written once more in the same update, which counts
        assert comparison.mismatches == 1
        assert f", beat {beat}: 0x" in comparison.differences[0]
        assert comparison.hint == ""


def test_what_is_missing_or_elsewhere_is_found(of_zotrain, tmp_path):
    kept, widths = of_zotrain
    spec = CORES["zotrain"]
    # the last write of an update: a later write of the same row replaces an earlier write
    last = next(number for number, one in enumerate(kept) if one[3]) - 1
    without = compare_capture(spec, vivado_csv(tmp_path / "a.csv", kept[:last] + kept[last + 1 :], widths))
    assert without.mismatches
    moved = compare_capture(spec, vivado_csv(tmp_path / "b.csv", changed(kept, last, "beat", 8192), widths))
    assert moved.mismatches == without.mismatches + 8
    nowhere = compare_capture(spec, vivado_csv(tmp_path / "c.csv", changed(kept, 0, "beat", 8192), widths))
    assert nowhere.mismatches >= 8


def test_a_capture_may_begin_anywhere_and_go_on(of_zotrain, tmp_path):
    kept, widths = of_zotrain
    spec = CORES["zotrain"]
    ends = [number for number, one in enumerate(kept) if one[3]]
    twice = compare_capture(spec, vivado_csv(tmp_path / "twice.csv", kept + kept[: ends[0] + 9], widths))
    assert twice.passed  # the self-test again; its second update there is not complete, and does not count
    later = vivado_csv(tmp_path / "later.csv", kept[ends[0] + 1 :], widths)
    comparison = compare_capture(spec, later)
    assert not comparison.passed
    assert comparison.hint == "it agrees with --skip 1 --drop 0"
    assert compare_capture(spec, later, skip=1).passed
    middle = vivado_csv(tmp_path / "middle.csv", kept[ends[0] - 3 :], widths)
    comparison = compare_capture(spec, middle)
    assert comparison.hint == "it agrees with --skip 1 --drop 1"
    assert compare_capture(spec, middle, skip=1, drop=1).passed


@pytest.mark.parametrize(
    "form",
    [
        {"prefix": "system_i/core_"},
        {"prefix": "system_i/core/inst/"},
        {"prefix": ""},
        {"radix": False},
        {"gap": True},
    ],
)
def test_names_and_rows_may_be_as_vivado_has_them(form, of_zotrain, tmp_path):
    kept, widths = of_zotrain
    assert compare_capture(CORES["zotrain"], vivado_csv(tmp_path / "c.csv", kept, widths, **form)).passed


def refused(path, message):
    with pytest.raises(UserError) as caught:
        compare_capture(CORES["zotrain"], path)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_capture_is_refused(of_zotrain, tmp_path):
    kept, widths = of_zotrain
    path = vivado_csv(tmp_path / "c.csv", kept, widths)
    text = path.read_text()
    refused(tmp_path / "none.csv", "no file .*none.csv")
    (tmp_path / "c.hex").write_text("0")
    refused(tmp_path / "c.hex", "are read from a .csv")
    for old, new, message in (
        ("core_monitor_done", "core_done", "line 1: no column for monitor_done; the columns are Sample in Buffer, "),
        ("TRIGGER", "other_monitor_done", "several columns for monitor_done, "),
        ("monitor_data[1023:0]", "monitor_data[1022:0]", "monitor_data has 1023 bits, no multiple of 128: capture all"),
        ("monitor_valid[7:0]", "monitor_valid[6:0]", "has 7 bits, .* has 8"),
        ("\n0,0,1,", "\n0,0,1,x", "is not known or not driven"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        refused(path, message)
    vivado_csv(path, kept[:5], widths)
    refused(path, "nothing to compare: 0 updates of the capture are complete")
    with pytest.raises(UserError, match="drop = -1: updates are counted from 0"):
        compare_updates([], [], drop=-1)


def test_the_command_line_reads_it(of_zotrain, tmp_path):
    kept, widths = of_zotrain
    spec = CORES["zotrain"]
    settings = [
        word for name in ("network", "lanes", "cut_rows") for word in ("--set", f"{name}={getattr(spec, name)}")
    ]
    right, wrong = tmp_path / "right.csv", tmp_path / "wrong.csv"
    vivado_csv(right, kept, widths)
    done = CliRunner().invoke(main, ["compare", "zotrain", str(right), *settings])
    assert done.exit_code == 0, done.output
    assert done.output == f"{right}: 288 of 288 beats agree\n"
    last = next(number for number, one in enumerate(kept) if one[3]) - 1
    vivado_csv(wrong, changed(kept, last, "data", 1), widths)
    done = CliRunner().invoke(main, ["compare", "zotrain", str(wrong), *settings])
    assert done.exit_code == 1
    head, difference = done.output.splitlines()
    assert head == f"{wrong}: 287 of 288 beats agree"
    assert difference.startswith("update 0 of the capture (stage 5, train one step, its update 1), beat ")
    done = CliRunner().invoke(main, ["compare", "zotrain", str(wrong), *settings, "--json"])
    assert json.loads(done.output)["mismatches"] == 1
