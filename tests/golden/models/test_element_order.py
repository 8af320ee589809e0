"""Order of tensor elements, from the user's to the description's and back."""

import json
from dataclasses import asdict

import numpy as np

from fabtune.golden.models.element_order import ElementOrder

# matrix (height x width x channels, outputs), read by `x.permute(0, 2, 3, 1).flatten(1) @ w`
TURNED = ElementOrder((12, 5), (2, 3, 2, 5), (3, 2, 0, 1), (5, 12))


def test_elements_go_where_the_axes_say():
    weight = np.arange(60).reshape(12, 5)
    taken = TURNED.taken(weight)
    for row, column, channel, output in np.ndindex(2, 3, 2, 5):
        assert taken[output, channel * 6 + row * 3 + column] == weight[row * 6 + column * 2 + channel, output]
    np.testing.assert_array_equal(TURNED.returned(taken), weight)


def test_another_shape_alone_moves_nothing():
    order = ElementOrder.reshaped((4, 2, 3), (4, 2, 1, 3))
    weight = np.arange(24).reshape(4, 2, 3)
    np.testing.assert_array_equal(order.taken(weight), weight[:, :, None])
    np.testing.assert_array_equal(order.returned(order.taken(weight)), weight)


def test_json_gives_it_back():
    assert ElementOrder.parse(json.loads(json.dumps(asdict(TURNED)))) == TURNED
