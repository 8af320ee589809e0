"""Coverage of the random words in `nn`'s benches."""

import numpy as np

from fabtune.golden.block import packets_of
from fabtune.golden.nn.softmax import SoftmaxSpec, SoftmaxTables
from fabtune.sim.nn.tb_softmax import EDGES, stimulus


def test_softmax_is_the_model_sample_by_sample():
    spec = SoftmaxSpec()
    inputs = stimulus(spec, np.random.default_rng(0), 500)
    result = spec.run(inputs, 500)["o"]
    assert np.array_equal(result["last"], inputs["i"]["last"])
    for start, end in packets_of(inputs["i"]["last"]):
        exact = SoftmaxTables().probabilities(inputs["i"]["logit"][start:end].T)[0]
        assert np.array_equal(result["probability"][start:end, 0], exact)


def test_softmaxs_edges_are_what_they_are_for():
    tables = SoftmaxTables()
    saturating, up, down, half = ([int(tables.exponentials[step]) for step in steps] for steps in EDGES)
    assert (1 << 18) - 64 <= sum(saturating) < 1 << 18
    for terms, halves, rounded in ((up, 3, 2), (down, 1, 0)):
        # a sum this close to 1 has a reciprocal of 1
        assert sum(terms) - (1 << 17) < 64
        assert terms[1] == halves << 4
        logits = -np.array([[0, int(np.flatnonzero(tables.exponentials == terms[1])[0])]]) << 9
        assert tables.probabilities(logits)[0].tolist() == [4096, rounded]
    assert sum(half) == (1 << 17) + 64
