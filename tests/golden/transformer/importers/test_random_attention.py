"""Random modules with attention, and files of both exporters: equal to PyTorch and ONNX Runtime, or refused."""

from collections import Counter

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.models.importers.onnx_file import onnx_network
from fabtune.golden.transformer.float_model import run_float
from fabtune.golden.transformer.importers.exported import transformer_of
from fabtune.golden.transformer.importers.onnx_model import onnx_transformer

from ....random_attention import drawn
from .test_onnx_model import exported

runtime = pytest.importorskip("onnxruntime")
BATCH = 3
"""Samples that are compared: another number than that of the export."""
RIGHT, REFUSED, WRONG, TRACEBACK, NONE = "accepted right", "refused", "wrong", "traceback", "not exported"
PARTS, SEEDS = 20, 10
EXPORTERS = [(False, 14), (False, 16), (False, 17), (False, 18), (False, 20), (True, 18), (True, 20), (True, 23)]
COUNTS = {"torch.export": Counter(), "ONNX, dynamo=False": Counter(), "ONNX, dynamo=True": Counter()}


def outputs_of(found, samples):
    """What an imported transformer gives for samples."""
    network, parameters = found.builder.finish()
    flat = np.pad(samples.reshape(len(samples), -1).astype(np.float64), ((0, 0), (0, 1)))
    rows = flat[:, found.places].reshape(-1, network.features)
    outputs = torch.from_numpy(run_float(network, parameters, rows, (len(found.places),) * len(samples))[-1])
    if found.left_to_host:
        outputs = getattr(torch, found.left_to_host)(outputs, -1)
    return outputs.numpy().reshape(len(samples), -1)


def outcome(imported, expected, samples):
    """What becomes of a model, and the reason of a refusal; `expected` gives what another tool computes."""
    try:
        found = imported()
    except UserError as error:
        return REFUSED, str(error)
    except Exception as error:
        return TRACEBACK, repr(error)
    try:
        wanted = np.asarray(expected(), np.float64).reshape(len(samples), -1)
    except Exception as error:
        return WRONG, f"another tool fails: {error}"
    outputs = outputs_of(found, samples)
    if outputs.shape != wanted.shape:
        return WRONG, f"{outputs.shape}, not {wanted.shape}"
    away = np.abs(outputs - wanted).max() / max(1, np.abs(wanted).max())
    return (RIGHT, "") if away < 2e-5 else (WRONG, f"off by {away:.2g}")


def of_module(seed):
    """Outcome of a module."""
    module = drawn(seed)
    samples = torch.randn(BATCH, *module.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    def expected():
        with torch.no_grad():
            return drawn(seed).double()(samples)

    return outcome(lambda: transformer_of(module, module.shape, "own"), expected, samples.numpy())


def of_file(seed, folder, dynamo, opset):
    """Outcome of a module's ONNX file."""
    module, path = drawn(seed), folder / f"own{seed}.onnx"
    try:
        exported(module, module.shape, path, dynamo, opset)
    except Exception as error:
        return NONE, str(error)
    samples = np.random.default_rng(seed).normal(size=(BATCH, *module.shape)).astype(np.float32)

    def imported():
        found = onnx_transformer(path)
        if found is None:
            # without a sign of a transformer it is a network of layers, which refuses rows of tokens
            onnx_network(path)
            raise UserError("is imported as a network of layers")
        return found

    return outcome(imported, lambda: runtime.InferenceSession(path).run(None, {"x": samples})[0], samples)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_modules_and_their_files(part, tmp_path):
    bad = []
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        dynamo, opset = EXPORTERS[seed % len(EXPORTERS)]
        results = {"torch.export": of_module(seed), f"ONNX, dynamo={dynamo}": of_file(seed, tmp_path, dynamo, opset)}
        for source, (what, reason) in results.items():
            COUNTS[source][what] += 1
            if what in (WRONG, TRACEBACK):
                bad.append((seed, source, opset, what, reason, drawn(seed).chosen))
    print(*(f"{source}: {dict(counts)}" for source, counts in COUNTS.items()), sep="\n")
    assert not bad
    assert all(counts[RIGHT] for counts in COUNTS.values())
