"""ONNX backend tests as networks: imported correctly, or refused for a reason."""

import contextlib
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, version_converter
from onnx.backend.test import loader
from onnx.reference import ReferenceEvaluator

from fabtune.golden.importers.layers.network import onnx_network
from fabtune.golden.importers.onnx_file import OPSETS

from ....campaign import NEEDLESSLY, TRACEBACK, WRONG, Case, table, tried
from ....onnx_models import outputs_of

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")


def newer(model):
    """Copy of a model; unsupported opsets are converted, as the refusal advises."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if any(one.domain == "" and one.version < OPSETS[0] for one in model.opset_import):
        with contextlib.suppress(Exception):  # some operators cannot be converted
            return version_converter.convert_version(copy, 13)
    return copy


def embedded(model, constants, outputs):
    """A model inside a network: an identity with weights before, a linear layer after.

    A single node is not a network: all inputs but the first become constants, and layers are added. Models without
    sample tensors as input and output stay unchanged.
    """
    graph = model.graph
    for value, name in constants:
        graph.initializer.append(numpy_helper.from_array(value, name))
    fixed = {one.name for one in graph.initializer}
    inputs = [one for one in graph.input if one.name not in fixed]
    if len(inputs) == 1 and (layer := _identity(inputs[0])) is not None:
        old, new = inputs[0].name, "campaign_sample"
        for one in graph.node:
            one.input[:] = [f"{old}_campaign" if name == old else name for name in one.input]
        inputs[0].name = new
        node, weight = layer
        node.input[:], node.output[:] = [new, "campaign_identity"], [f"{old}_campaign"]
        graph.initializer.append(numpy_helper.from_array(weight, "campaign_identity"))
        graph.node.insert(0, node)
    if len(graph.output) == 1 and outputs[0].ndim >= 2:
        features = int(np.prod(outputs[0].shape[1:]))
        weight = np.random.default_rng(0).normal(0, 1, (features, 3)).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(weight, "campaign_weight"))
        graph.node.append(helper.make_node("Flatten", [graph.output[0].name], ["campaign_flat"]))
        graph.node.append(helper.make_node("MatMul", ["campaign_flat", "campaign_weight"], ["campaign_logits"]))
        del graph.output[:]
        graph.output.append(helper.make_tensor_value_info("campaign_logits", onnx.TensorProto.FLOAT, None))
    return model


def _identity(given):
    """Identity convolution or product and its weight; None if the input is not a tensor of samples."""
    sizes = [one.dim_value for one in given.type.tensor_type.shape.dim]
    if given.type.tensor_type.elem_type != onnx.TensorProto.FLOAT or not 2 <= len(sizes) <= 4 or min(sizes[1:]) < 1:
        return None
    weight = np.eye(sizes[1], dtype=np.float32).reshape(sizes[1], sizes[1], *[1] * (len(sizes) - 2))
    return helper.make_node("MatMul" if len(sizes) == 2 else "Conv", [], []), weight


def loaded(case):
    """Model of a case, inputs and outputs."""
    if case.model is not None:
        inputs, outputs = case.data_sets[0]
        return case.model, [np.asarray(one) for one in inputs], [np.asarray(one) for one in outputs]
    if case.model_dir is None:  # large networks with computed weights
        return onnx.load(Path(loader.DATA_DIR) / "light" / Path(case.url).name), [], []
    folder = Path(case.model_dir)
    pairs = (
        [
            numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes()))
            for file in sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"))
        ]
        for kind in ("input", "output")
    )
    return onnx.load(folder / "model.onnx"), *pairs


def backend(kind: str, folder: Path) -> Iterator[Case]:
    """Networks from one kind of ONNX backend tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some cases compute with infinity
        cases = loader.load_model_tests(kind=kind)
    for case in sorted(cases, key=lambda one: one.name):
        try:
            model, inputs, outputs = loaded(case)
        except Exception:  # sequences and optional values are not tensors
            continue
        copy = newer(model)
        fixed = {one.name for one in copy.graph.initializer}
        names = [one.name for one in copy.graph.input if one.name not in fixed]
        try:
            embedded(copy, list(zip(inputs[1:], names[1:], strict=False)), outputs or [np.zeros(1)])
        except Exception:  # strings and sequences cannot be initializers
            copy = model
        path = folder / f"{case.name}.onnx"
        path.write_bytes(copy.SerializeToString())
        expected = partial(_computed, copy)
        yield Case(case.name, partial(onnx_network, path), expected, _sample(inputs), batch=1)


def _sample(inputs):
    return inputs[0].astype(np.float32) if inputs and inputs[0].dtype == np.float32 else None


def _computed(model, sample):
    """Outputs of onnxruntime, or of ONNX's evaluator where unsupported."""
    (given,) = (one for one in model.graph.input if one.name not in {own.name for own in model.graph.initializer})
    try:
        (found,) = outputs_of(model, sample)
    except Exception:
        (found,) = ReferenceEvaluator(model).run(None, {given.name: sample})
    return found


@pytest.mark.slow
def test_backend_models(tmp_path, capsys):
    results = {kind: {case.name: tried(case) for case in backend(kind, tmp_path)} for kind in KINDS}
    with capsys.disabled():
        print("", table(results), sep="\n")
    for kind, found in results.items():
        bad = {name: one for name, one in found.items() if one[0] in (WRONG, TRACEBACK, NEEDLESSLY)}
        assert not bad, f"{kind}: {bad}"


def test_a_few_backend_models(tmp_path):
    results = {case.name: tried(case) for case in backend("pytorch-operator", tmp_path)}
    assert not {name: one for name, one in results.items() if one[0] in (WRONG, TRACEBACK)}
    assert len(results) > 30
