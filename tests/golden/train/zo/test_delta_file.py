"""Delta files: restoring the tuned model, sums of runs, mismatches."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch.nn.functional import cross_entropy

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.models.checkpoint import load_saved
from fabtune.golden.train.zo import Periodic, PeZO
from fabtune.golden.train.zo.delta_file import Delta, base_digest
from fabtune.golden.train.zo.methods import integer_source_of
from fabtune.golden.train.zo.optimiser import ZerothOrder

Q4_28 = Format(4, 28)


def module_of(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(20, 30), torch.nn.LayerNorm(30), torch.nn.ReLU(), torch.nn.Linear(30, 5)
    module = torch.nn.Sequential(*layers).to(dtype)
    module[1].weight.requires_grad_(False)
    return module


def tuned(generator="otf8", seed=0, steps=50, position=0, dtype=torch.float32, settings=()):
    """A run: base, final state, and the delta."""
    module = module_of(dtype=dtype)
    base = {name: one.detach().clone() for name, one in module.state_dict().items()}
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    digest, source = base_digest(trained), integer_source_of(generator, settings)
    optimiser = ZerothOrder(trained.values(), source, lr=1e-2, format=Q4_28, position=position)
    rng = torch.Generator().manual_seed(seed)
    x, y = torch.randn(64, 20, generator=rng).to(dtype), torch.randint(5, (64,), generator=rng)
    moves = []
    for _ in range(steps):
        optimiser.step(lambda: cross_entropy(module(x), y))
        moves += optimiser.moves
    return base, module.state_dict(), Delta.of(trained, digest, source, Q4_28, moves)


CASES = {
    "otf8": {},
    "otf14": {"generator": "otf14"},
    "pool": {"generator": "pool"},
    "settings": {"settings": ("scale.urng.leap=4", "scale.mode=pow2")},
    "bfloat16": {"dtype": torch.bfloat16},
}


@pytest.mark.parametrize("case", CASES)
def test_base_and_delta_are_the_tuned_model(case, tmp_path):
    base, after, delta = tuned(**CASES[case])
    path = tmp_path / "delta.safetensors"
    delta.save(path)
    again = Delta.load(path)
    found = again.applied(base)
    assert list(found) == list(after)
    for name, one in after.items():
        assert torch.equal(found[name], one), name
    assert any((after[name] != base[name]).any() for name in after)
    assert (again.source, again.format, again.parameters) == (delta.source, delta.format, delta.parameters)


def test_a_file_has_32_kb_for_any_model(tmp_path):
    *_, delta = tuned()
    delta.save(tmp_path / "delta.safetensors")
    assert 31_620 < (tmp_path / "delta.safetensors").stat().st_size < 33_000
    delta.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "delta.safetensors").read_bytes()


def test_two_runs_add_up_and_one_is_taken_away_again():
    base, after, one = tuned(seed=1)
    _, _, two = tuned(seed=2, position=2500)
    both = one.plus(two)
    assert torch.equal(both.plus(two, -1).applied(base)["0.weight"], after["0.weight"])
    integers = np.rint(base["0.weight"].double().numpy() * 2**28).astype(np.int64)
    steps = [
        np.rint(part.applied(base)["0.weight"].double().numpy() * 2**28).astype(np.int64) - integers
        for part in (one, two, both)
    ]
    # floats have 24 bits: all three are rounded
    assert np.abs(steps[0] + steps[1] - steps[2]).max() <= 3 * 2**4


def test_sums_wrap():
    *_, delta = tuned(steps=1)
    full = Delta(delta.source, delta.format, delta.parameters, delta.base, np.full((255, 31), 2**31 - 1, np.int32))
    assert (full.plus(full).total == -2).all()


def test_another_base_is_refused():
    base, _, delta = tuned()
    other = dict(base) | {"3.bias": base["3.bias"].clone()}
    other["3.bias"][2] += 2.0**-20
    with pytest.raises(UserError, match="this is another base"):
        delta.applied(other)
    with pytest.raises(UserError, match=r"the base lacks 3\.bias"):
        delta.applied({name: one for name, one in base.items() if name != "3.bias"})
    with pytest.raises(UserError, match=r"3\.bias of the base is \(6,\), the delta's is \(5,\)"):
        delta.applied(base | {"3.bias": torch.zeros(6)})
    with pytest.raises(UserError, match="this is another base"):
        delta.applied({name: one.double() for name, one in base.items()})


def test_a_generator_that_a_file_cannot_name_is_refused():
    *_, delta = tuned(steps=2)
    source = Periodic(delta.source.spec.scale)
    with pytest.raises(UserError, match="a delta's generator is a PezoSpec, which a file can name, not ScaleSpec"):
        Delta(source, delta.format, delta.parameters, delta.base, delta.total)


def test_a_frozen_parameter_may_differ():
    base, after, delta = tuned()
    found = delta.applied(base | {"1.weight": torch.zeros(30)})
    assert torch.equal(found["0.weight"], after["0.weight"])
    assert not found["1.weight"].any()


def test_deltas_of_different_generators_or_bases_are_not_added():
    *_, one = tuned(steps=2)
    *_, other = tuned(steps=2, settings=("scale.urng.leap=4",))
    with pytest.raises(UserError, match="deltas of different source"):
        one.plus(other)
    changed = Delta(one.source, one.format, one.parameters, "0" * 20, one.total)
    with pytest.raises(UserError, match="deltas of different base"):
        one.plus(changed)


DAMAGES = {
    "no metadata": (lambda tensors, metadata: (tensors, {}), "is not a delta file"),
    "version": (lambda tensors, metadata: (tensors, metadata | {"layout": "fabtune-delta-2"}), "is not a delta file"),
    "tensor": (lambda tensors, metadata: ({"other": tensors["deltas"]}, metadata), "damaged delta file"),
    "shape": (lambda tensors, metadata: ({"deltas": tensors["deltas"][:, :-1].copy()}, metadata), "does not fit"),
    "type": (lambda tensors, metadata: ({"deltas": tensors["deltas"].astype(np.int64)}, metadata), "does not fit"),
    "generator": (lambda tensors, metadata: (tensors, metadata | {"generator": '["bits=8"'}), "damaged delta file"),
    "parameters": (lambda tensors, metadata: (tensors, metadata | {"parameters": "[1]"}), "damaged delta file"),
    "lanes": (lambda tensors, metadata: (tensors, metadata | {"lanes": "0"}), "lanes = 0"),
    "format": (lambda tensors, metadata: (tensors, metadata | {"format": "four"}), "is not a format"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(damage, tmp_path):
    *_, delta = tuned(steps=2)
    path = tmp_path / "delta.safetensors"
    delta.save(path)
    change, refusal = DAMAGES[damage]
    tensors, metadata = change(load_file(path), load_saved(path)[1])
    save_file(tensors, path, metadata)
    with pytest.raises(UserError, match=refusal):
        Delta.load(path)


def test_metadata_is_readable(tmp_path):
    *_, delta = tuned(steps=2)
    path = tmp_path / "delta.safetensors"
    delta.save(path)
    metadata = load_saved(path)[1]
    assert json.loads(metadata["parameters"])[0] == ["0.weight", [30, 20]]
    assert "scale.urng.bits=8" in json.loads(metadata["generator"])


def test_the_optimiser_of_a_user_gives_its_moves():
    module = module_of()
    optimiser = PeZO(module.parameters(), lr=1e-2, format=Q4_28)
    x, y = torch.randn(8, 20), torch.randint(5, (8,))
    optimiser.step(lambda: cross_entropy(module(x), y))
    assert len(optimiser.moves) == 1
