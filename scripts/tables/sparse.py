"""Sensitive-sparse zeroth order: table 1 with a small transformer, and a 7B model's memory by arithmetic."""

from __future__ import annotations

from ...golden.train.sparse.memory import rows as memory_rows
from .options import Options, Rows
from .zeroth import STAND_IN, Way, compared

_FULL = Way("pezo-otf")
_RANDOM = 1e-2
"""The best rate of those tried for random weights; the loss hardly depends on the rate."""
_WAYS = {
    _FULL: "full zeroth order, 16 bits",
    Way("sparse-zo", mask="generic"): "sensitive 0.1 %, generic text, rest NF4",
    Way("sparse-zo", mask="task"): "sensitive 0.1 %, the task's own, rest NF4",
    Way("sparse-zo", mask="random"): "random 0.1 %, rest NF4",
    Way("sparse-zo", mask="random", rate=_RANDOM): f"random 0.1 %, rest NF4, rate {_RANDOM}",
}


def sparse_1(options: Options) -> Rows:
    """Table 1: tuning of sensitive weights, of random weights and of all weights; and the memory of a 7B model."""
    memory = [
        f"Llama2-7B, {row['what']}: {row['GB']} GB, {row['GiB']} GiB; paper {row['paper'] or '-'}"
        for row in memory_rows()
    ]
    return {
        "title": "Sensitive-sparse zeroth order, table 1: held-out sentences right (%)",
        **compared(options, ("trec", "sst-2"), _WAYS, "tuned"),
        "notes": [
            "paper: Llama2-7B, Mistral-7B, OPT-6.7B; sensitive weights match or beat full zeroth order, random do not",
            "before: with the rest in NF4 already, and the masked weights in 16 bits",
            *STAND_IN,
            *memory,
        ],
    }
