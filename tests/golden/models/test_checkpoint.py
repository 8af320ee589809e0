"""Checkpoints: loading, one-line refusals, and no code execution."""

import json
import os
import pickle
import stat
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.models.checkpoint import load_into, load_saved, load_state, save_state
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset


@pytest.fixture
def module():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def refused(call, *arguments):
    with pytest.raises(UserError) as mistake:
        call(*arguments)
    text = str(mistake.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 400
    return text


def write(path, state):
    (save_file if path.suffix == ".safetensors" else torch.save)(state, path)
    return path


@pytest.mark.parametrize("file", ["w.safetensors", "w.pt", "w.pth"])
@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2],
)
def test_floats_of_every_kind_are_loaded_as_the_modules_own(tmp_path, module, file, dtype):
    state = {name: one.to(dtype) if one.is_floating_point() else one for name, one in module.state_dict().items()}
    path = write(tmp_path / file, state)
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    load_into(other, path)
    for name, one in other.state_dict().items():
        assert one.dtype == module.state_dict()[name].dtype
        assert torch.equal(one, state[name].to(one.dtype))


def test_files_without_the_counter_of_a_batch_norm(tmp_path, module):
    state = {name: one for name, one in module.state_dict().items() if name != "1.num_batches_tracked"}
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    load_into(other, write(tmp_path / "old.pt", state))
    assert all(torch.equal(one, module.state_dict()[name]) for name, one in other.state_dict().items())


@pytest.mark.parametrize(
    ("prefix", "of"),
    [
        ("module.", ", as of nn.DataParallel"),
        ("_orig_mod.", ", as of torch.compile"),
        ("_orig_mod.module.", ""),
        ("a.", ""),
    ],
)
def test_a_prefix_of_all_names_is_named_and_left_out(tmp_path, module, prefix, of):
    path = write(tmp_path / "w.pt", {prefix + name: one for name, one in module.state_dict().items()})
    says = f"{path}: all names begin with {prefix}{of}, those of the network do not: "
    assert refused(load_into, module, path) == f"{says}--weights {path}:{prefix} leaves it out"
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    load_into(other, tmp_path / f"w.pt:{prefix}")
    assert torch.equal(other[0].weight, module[0].weight)
    assert "0.weight does not begin with b." in refused(load_into, module, tmp_path / "w.pt:b.")
    assert refused(load_into, module, tmp_path / "v.pt:a.") == f"there is no file {tmp_path / 'v.pt'}"


def test_older_files_of_pytorch_are_read(tmp_path, module):
    torch.save(module.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert list(load_state(tmp_path / "old.pt")) == list(module.state_dict())
    torch.save({"a": nn.Parameter(torch.ones(2))}, tmp_path / "parameter.pt")
    assert not load_state(tmp_path / "parameter.pt")["a"].requires_grad


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("how", ["pickle", "zip", "legacy", "named safetensors"])
def test_a_malicious_file_does_not_run(tmp_path, how):
    path, trace = tmp_path / ("w.safetensors" if "safe" in how else "w.pt"), tmp_path / "ran"
    if how in ("zip", "legacy"):
        torch.save({"a": Malicious(trace)}, path, _use_new_zipfile_serialization=how == "zip")
    else:
        path.write_bytes(pickle.dumps(Malicious(trace)))
    assert str(path) in refused(load_state, path)
    assert not trace.exists()
    if "safe" not in how:  # the file runs code if allowed
        torch.load(path, weights_only=False) if how != "pickle" else pickle.loads(path.read_bytes())
        assert trace.exists()


@pytest.mark.parametrize("file", ["w.safetensors", "w.pt", "legacy.pt"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, module, file):
    path = tmp_path / file
    if file == "legacy.pt":
        torch.save(module.state_dict(), path, _use_new_zipfile_serialization=False)
    else:
        write(path, module.state_dict())
    whole = path.read_bytes()
    for length in {0, 1, 7, 8, 20, *range(0, len(whole), len(whole) // 23), len(whole) - 1}:
        path.write_bytes(whole[:length])
        assert str(path) in refused(load_into, module, path)
    rng = np.random.default_rng(4)
    for _ in range(60):
        bad = bytearray(whole)
        bad[rng.integers(min(len(bad), 600))] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        try:
            load_into(module, path)
        except UserError as mistake:
            assert "\n" not in str(mistake)  # noqa: PT017 - the flipped bit may be one of a weight


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (3, "holds a int, not tensors by name: save model.state_dict()"),
        ([torch.ones(2)], "holds a list, not tensors by name"),
        ({"epoch": 3}, "'epoch' is a int, not a tensor: save model.state_dict()"),
        ({"state_dict": {"a": torch.ones(2)}}, "'state_dict' is a dict, not a tensor"),
        ({1: torch.ones(2)}, "1 is a Tensor, not a tensor"),
        ({"a": torch.eye(2).to_sparse()}, "a is sparse, quantised or empty"),
        ({"a": torch.empty(2, device="meta")}, "a is sparse, quantised or empty"),
        (nn.Linear(2, 2), "contains more than tensors, or is damaged, and is refused: save model.state_dict()"),
    ],
    ids=str,
)
def test_files_without_a_state_dict_are_refused(tmp_path, state, message):
    torch.save(state, tmp_path / "w.pt")
    assert message in refused(load_state, tmp_path / "w.pt")


@pytest.mark.parametrize("file", ["w.safetensors", "w.pt"])
def test_an_absent_file_or_a_folder_is_refused(tmp_path, file):
    assert refused(load_state, tmp_path / file) == f"there is no file {tmp_path / file}"
    (tmp_path / file).mkdir()
    assert refused(load_state, tmp_path / file) == f"{tmp_path / file} is not a file"


def changed(state, name, value):
    return {**state, name: value}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: {k: v for k, v in s.items() if k != "2.weight"}, "lacks 2.weight, which the network has as (2, 3)"),
        (lambda s: changed(s, "9.bias", torch.ones(5)), "has 9.bias of (5,), which the network has not"),
        (lambda s: changed(s, "0.weight", torch.ones(3, 5)), "0.weight is (3, 5), the network's is (3, 4)"),
        (lambda s: changed(s, "0.weight", torch.ones(12)), "0.weight is (12,), the network's is (3, 4)"),
        (lambda s: changed(s, "0.bias", torch.tensor([1, np.nan, 0])), "0.bias has NaN or infinity"),
        (lambda s: changed(s, "0.bias", torch.tensor([1.0, 1e300, 0], dtype=torch.float64)), "in torch.float32"),
        (lambda s: changed(s, "0.bias", torch.ones(3, dtype=torch.int8)), "0.bias is torch.int8, the network's is"),
    ],
)
def test_weights_of_another_network_are_refused_and_change_nothing(tmp_path, module, change, message):
    before = {name: one.clone() for name, one in module.state_dict().items()}
    path = write(tmp_path / "w.pt", change({name: one + 1 for name, one in before.items()}))
    assert message in refused(load_into, module, path)
    assert all(torch.equal(before[name], one) for name, one in module.state_dict().items())


ARRAYS = {
    "a": np.arange(6, dtype=np.int64).reshape(2, 3).T,  # not contiguous
    "b": np.array(7, np.int32),
    "c": np.linspace(-1, 1, 5, dtype=np.float32),
    "d": np.zeros((0, 4), np.uint8),
}
METADATA = {"method": "instantft", "format": "Q4.12", "note": 'ä "quoted"\n', "a": "", "z": "1"}


@pytest.mark.parametrize("metadata", [{}, METADATA], ids=["plain", "metadata"])
def test_what_is_saved_is_read_back(tmp_path, metadata):
    path = tmp_path / "new" / "deep" / "adapters.safetensors"
    save_state(path, ARRAYS, metadata, force=False)
    arrays, read = load_saved(path)
    assert read == metadata
    assert set(arrays) == set(ARRAYS)
    for name, one in arrays.items():
        assert (one.dtype, one.shape) == (ARRAYS[name].dtype, ARRAYS[name].shape)
        assert (one == ARRAYS[name]).all()
    assert all(tuple(load_state(path)[name].shape) == one.shape for name, one in ARRAYS.items())
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["fan", "digits"])
def test_a_module_comes_back_from_its_own_file(tmp_path, name):
    module, other, path = module_of(preset(name)), module_of(preset(name)), tmp_path / "w.safetensors"
    save_state(path, {key: one.numpy() for key, one in module.state_dict().items()}, {}, force=False)
    load_into(other, path)
    assert all(torch.equal(one, other.state_dict()[key]) for key, one in module.state_dict().items())


def test_the_same_contents_give_the_same_bytes(tmp_path):
    code = (
        "import sys, numpy as np; from pathlib import Path; from fabtune.golden.models.checkpoint import save_state;"
        "save_state(Path(sys.argv[1]), {'b': np.ones(3), 'a': np.arange(4)}, {c: c for c in 'wvuabcdef'}, False)"
    )
    for name in ("1", "2"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_text("mine")
    assert (
        refused(save_state, path, ARRAYS, {}, False) == f"{path} exists: choose another file, or --force to replace it"
    )
    assert path.read_text() == "mine"
    save_state(path, ARRAYS, {}, force=True)
    assert set(load_saved(path)[0]) == set(ARRAYS)


def test_a_failure_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    path.write_text("mine")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        save_state(path, ARRAYS, {}, force=True)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(path.name, "mine")]


def test_a_saved_file_is_readable_like_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    save_state(tmp_path / "w.safetensors", ARRAYS, {}, force=False)
    modes = {stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert len(modes) == 1


def test_other_files_are_refused_when_reading_back(tmp_path):
    assert "not a safetensors file" in refused(load_saved, tmp_path / "absent.safetensors")
    (tmp_path / "w.safetensors").write_text("no" * 50)
    assert "not a safetensors file" in refused(load_saved, tmp_path / "w.safetensors")


def of_type(path, dtype, size):
    """Safetensors file with a tensor of 8 values, of a type that PyTorch may lack."""
    header = json.dumps({"a": {"dtype": dtype, "shape": [8], "data_offsets": [0, size]}}).encode().ljust(64)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    return path


@pytest.mark.parametrize(
    ("dtype", "size"), [("BF16", 16), ("F8_E4M3", 8), ("F8_E5M2", 8), ("F8_E8M0", 8), ("F6_E2M3", 6), ("F4", 4)]
)
def test_types_that_numpy_lacks_are_refused_by_name(tmp_path, dtype, size):
    path = of_type(tmp_path / "a.safetensors", dtype, size)
    assert f"a is of type {dtype}, which is in no file that fabtune writes" in refused(load_saved, path)


@pytest.mark.parametrize(("dtype", "size", "said"), [("F6_E3M2", 6, "F6_E3M2"), ("F4", 4, "two values in a byte")])
def test_types_without_floats_of_their_own_are_refused(tmp_path, dtype, size, said):
    assert said in refused(load_state, of_type(tmp_path / "a.safetensors", dtype, size))
