"""Memory of float tuning, computed by hand."""

from fabtune.golden.transformer.blocks import Activation, Linear, Residual, SelfAttention, Transformer
from fabtune.golden.transformer.float_bytes import float_bytes


def test_fully_connected_layers_by_hand():
    operations = Linear(30), Activation("relu"), Linear(5, bias=False)
    network = Transformer("own", 10, operations, ((-1,), (0,), (1,)), ("up", "relu", "down"))
    found = float_bytes(network, 7, (2, 1))
    parameters = 10 * 30 + 30 + 30 * 5 + 7
    assert (found.weights, found.states) == (2 * parameters, 14 * parameters)
    # 3 rows: largest are input and output of the ReLU; inputs and all outputs are stored
    assert found.largest == 2 * 3 * (30 + 30)
    assert found.kept == 2 * 3 * (10 + 30 + 30 + 5)
    assert found.mezo == found.weights + found.largest
    assert found.backpropagation == 16 * parameters + found.kept


def test_attention_by_hand():
    """Queries, keys and values, contexts, probabilities of each head, and the inputs still needed by the sum."""
    operations = Linear(8), Linear(4), Linear(4), SelfAttention(4, 2, 2), Residual()
    reads = (-1,), (-1,), (-1,), (0, 1, 2), (-1, 3)
    network = Transformer("own", 8, operations, reads, tuple("qkvas"))
    found = float_bytes(network, 0, (5, 3))
    probabilities = 4 * (5**2 + 3**2)
    assert found.largest == 2 * (8 * (8 + 8 + 4 + 4 + 8) + probabilities)
    assert found.kept == 2 * (8 * (8 + 8 + 4 + 4 + 8 + 8) + probabilities)
