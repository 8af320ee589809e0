"""Random modules with attention, files of both exporters, and mutations: equal to another tool, or refused."""

import json
from collections import Counter

import numpy as np
import onnx
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import onnx_network
from fabtune.golden.importers.transformers.own_model import onnx_transformer, transformer_of

from ....mutated_onnx import Mutated
from ....own_transformer_modules import outputs_of
from ....random_attention import drawn
from .test_onnx_model import exported

runtime = pytest.importorskip("onnxruntime")
runtime.set_default_logger_severity(4)
BATCH = 3
"""Compared samples, unlike the batch of the export."""
RIGHT, REFUSED, WRONG, TRACEBACK, NONE = "accepted right", "refused", "wrong", "traceback", "not run by the other tool"
PARTS, SEEDS, MUTATIONS = 20, 5, 20
EXPORTERS = [(False, 14), (False, 16), (False, 17), (False, 18), (False, 20), (True, 18), (True, 20), (True, 23)]


def outcome(imported, expected, samples, tolerance):
    """Outcome of a model, with its reason; `expected` computes another tool's outputs."""
    try:
        outputs = outputs_of(imported(), samples).reshape(len(samples), -1)
    except UserError as error:
        return REFUSED, str(error)
    except Exception as error:
        return TRACEBACK, repr(error)
    try:
        wanted = np.asarray(expected(), np.float64).reshape(len(samples), -1)
    except Exception as error:
        return NONE, str(error)
    if outputs.shape != wanted.shape:
        return WRONG, f"{outputs.shape}, not {wanted.shape}"
    away = np.abs(outputs - wanted).max() / max(1, np.abs(wanted).max())
    return (RIGHT, "") if away < tolerance else (WRONG, f"off by {away:.2g}")


def of_module(seed):
    module = drawn(seed)
    samples = torch.randn(BATCH, *module.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    def expected():
        with torch.no_grad():
            return drawn(seed).double()(samples)

    return outcome(lambda: transformer_of(module, module.shape, "own"), expected, samples.numpy(), 1e-5)


def of_file(path, shape, seed):
    samples = np.random.default_rng(seed).normal(size=(BATCH, *shape)).astype(np.float32)

    def imported():
        found = onnx_transformer(path)
        if found is None:
            # without attention the import treats it as a network of layers, which refuses rows of tokens
            onnx_network(path)
            raise UserError("is imported as a network of layers")
        return found

    def expected():
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return runtime.InferenceSession(path, options).run(None, {"x": samples})[0]

    return outcome(imported, expected, samples, 1e-4)


def cases(seed, folder):
    """Outcomes of a module, its file and the file's mutations: source, outcome, reason, description."""
    module, (dynamo, opset) = drawn(seed), EXPORTERS[seed % len(EXPORTERS)]
    yield "module", *of_module(seed), module.chosen
    path, source = folder / "own.onnx", f"file, dynamo={dynamo}"
    try:
        exported(module, module.shape, path, dynamo, opset)
    except Exception as error:
        yield source, NONE, str(error), module.chosen
        return
    yield source, *of_file(path, module.shape, seed), (opset, module.chosen)
    model = onnx.load(path)
    for number in range(MUTATIONS):
        mutated = Mutated(model, 1000 * seed + number)
        path.write_bytes(mutated.model.SerializeToString())
        yield "mutated file", *of_file(path, module.shape, seed), mutated.done


@pytest.fixture(scope="module")
def counts():
    """Outcomes by source, printed at the end."""
    found = {}
    yield found
    print("", *(f"{source}: {json.dumps(dict(outcomes))}" for source, outcomes in found.items()), sep="\n")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_modules_and_their_files(part, tmp_path, counts):
    bad = []
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        for source, what, *about in cases(seed, tmp_path):
            counts.setdefault(source, Counter())[what] += 1
            if what in (WRONG, TRACEBACK):
                bad.append((seed, source, what, *about))
    assert not bad
