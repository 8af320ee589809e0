"""What the random words of `zo`'s benches exercise."""

import numpy as np

from fabtune.golden.zo.sparse_add import SparseAddSpec
from fabtune.sim.zo.tb_sparse_add import stimulus


def test_corrections_of_all_kinds():
    spec = SparseAddSpec()
    inputs = stimulus(spec, np.random.default_rng(0), 1000)
    result = spec.run(inputs, 1000)["o"]
    assert 5 < result["error"].sum() < result["last"].sum() / 2
    # crowded beats and many without any
    assert spec.slots(inputs) > 2000
    assert len(np.unique(inputs["sparse"]["index"] // 32)) < len(inputs["sparse"]["index"]) / 4
    assert (result["weight"] == inputs["i"]["weight"]).all(axis=1).sum() > 300
