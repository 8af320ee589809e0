"""Import campaign over third-party networks: outcomes and counts.

A source of networks is a function that yields `Case`. `tried` gives the outcome of a case, `table` counts outcomes.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fabtune.golden.errors import UserError
from fabtune.golden.models.module import NetworkModule
from fabtune.golden.models.network import Network

RIGHT, WRONG, RIGHTLY, NEEDLESSLY, TRACEBACK = (
    *("accepted right", "accepted wrong", "refused rightly", "refused without need", "traceback"),
)
OUTCOMES = (RIGHT, WRONG, RIGHTLY, NEEDLESSLY, TRACEBACK)
REASONS = (
    # not supported by any core: names of operators or settings
    *("has no hardware", "has dilations of", "groups of", "has a padding of", "has ceil_mode", "not that of its size"),
    *("not from 0", "takes the statistics of a batch", "not with zeros", "is over", "is transposed"),
    *("a slope is", "one at most", "a stride of", "windows of", "a limit is above 0", "only tensors of equal shape"),
    *("only one value for each channel", "pads more than height and width", "negative padding"),
    # unsupported network structures
    *(
        "takes \\d+ inputs",
        "gives \\d+ outputs",
        "give fixed sizes",
        "as well, which has",
        "must end in a linear layer",
    ),
    *("must follow a", "no layer reads its outputs", "flatten it first", "not \\(channels, height, width\\)"),
    *("is no tensor of float32", "does not depend on the sample", "not the last one", "keep each sample for itself"),
    *("not float32", "has \\d+ nodes", "has opset", "more than the limit", "is shared with", "computes with constants"),
    *("is computed from the samples", "which is no output of a layer", "of a second stage", "of the domain"),
    *("no product of a vector", "as a map it has hardware", "the outputs of one stage", "before its", "behind its"),
    *("has transA", "not one for each of", "without the batch", "the batch is the first axis", "has 0 opsets"),
    *(
        "is in training mode",
        "before a convolution only",
        "is active in evaluation mode",
        "moves the samples of a batch",
        "gives a (sparse|value_string)",
    ),
)
"""Texts of legitimate refusals: they name something without hardware support. Any other refusal is a defect."""


@dataclass(frozen=True)
class Case:
    """A third-party network.

    Parameters
    ----------
    imported : function
        Imports the network, or raises `UserError`.
    expected : function
        Outputs of another tool for samples.
    sample : array, optional
        Samples in the network's order; random by default.
    batch : int
        Number of random samples.
    """

    name: str
    imported: Callable[[], tuple[Network, NetworkModule]]
    expected: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    sample: NDArray[np.float32] | None = None
    batch: int = 2


def tried(case: Case) -> tuple[str, str]:
    """Outcome of a case, and the message of a refusal or error."""
    try:
        network, module = case.imported()
    except UserError as refusal:
        rightly = any(re.search(reason, str(refusal)) for reason in REASONS)
        return RIGHTLY if rightly and "\n" not in str(refusal) else NEEDLESSLY, str(refusal)
    except Exception as error:
        return TRACEBACK, f"{type(error).__name__}: {error}"
    sample = case.sample
    if sample is None:
        sample = np.random.default_rng(0).normal(0, 1, (case.batch, *network.input_shape)).astype(np.float32)
    expected = case.expected(sample)
    with torch.no_grad():
        found = module(torch.from_numpy(sample.reshape(-1, *network.input_shape)))
        for what in module.left_to_host:
            found = getattr(torch, what)(found, 1)
    close = 1e-4 * max(1.0, float(np.abs(expected).max()))
    error = np.abs(found.numpy() - expected.reshape(found.shape)).max()
    return (RIGHT if error <= close else WRONG), f"an error of {error}"


def table(results: dict[str, dict[str, tuple[str, str]]]) -> str:
    """Outcome counts per source, as Markdown."""
    lines = [f"| source | networks | {' | '.join(OUTCOMES)} |", "|---" * (2 + len(OUTCOMES)) + "|"]
    for source, found in results.items():
        counts = Counter(outcome for outcome, _ in found.values())
        lines.append(f"| {source} | {len(found)} | {' | '.join(str(counts[one]) for one in OUTCOMES)} |")
    return "\n".join(lines)
