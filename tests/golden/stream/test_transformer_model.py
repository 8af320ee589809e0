"""Zeroth-order job on transformers: words, projected gradients compared with float64, training, refusals."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format, Narrower
from fabtune.golden.nn.softmax import SoftmaxTables
from fabtune.golden.stream.forward import is_weight
from fabtune.golden.stream.words import TensorWords
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.zo.deltas import DELTA, PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.loss_difference import loss_differences
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings

from ...own_transformers import SOURCE, TIMES, Drawn, decoder, encoder, integer_model, sentences, slopes, vision

SHAPES = {(0, "bias"): (5,), (0, "weight"): (5, 9), (2, "factor"): (40,), (3, "weight"): (33, 64)}


def test_words_and_tensors_are_each_other_s_inverse():
    order = TensorWords(SHAPES, 8, 4)
    assert [len(place) for place in order.places.values()] == [1, 2 * 2, 2, 9 * 8]
    rng = np.random.default_rng(1)
    tensors = {name: rng.integers(-99, 99, shape) for name, shape in SHAPES.items()}
    again = order.split(order.flatten(tensors))
    assert all((again[name] == tensors[name]).all() for name in SHAPES)


def test_a_word_of_sensitive_weights_is_two_lanes_of_a_tile():
    bias, weight = (0, "bias"), (1, "weight")
    order = TensorWords({bias: (40,), weight: (17,)}, 8, 4, {weight})
    assert order.places == {bias: range(2), weight: range(2, 5)}
    tensors = {bias: np.arange(40), weight: np.arange(17)}
    words = order.flatten(tensors)
    assert words[3].tolist() == [*range(8, 16), *[0] * 24]
    assert all((one == tensors[name]).all() for name, one in order.split(words).items())
    assert order.gathered(weight, np.arange(9).reshape(3, 3)).tolist() == [
        *(0, 1, 2, 0, 1, 2, 0, 1),
        *(3, 4, 5, 3, 4, 5, 3, 4),
        6,
    ]


def test_a_weight_s_place_in_its_tile():
    """Lane l, column c of a tile is parameter 16 l + c; tiles of an output group are adjacent."""
    order = TensorWords({(0, "weight"): (48, 96)})
    weights = np.arange(48 * 96).reshape(48, 96)
    words = order.flatten({(0, "weight"): weights})
    assert words.shape == (9, 512)
    for output, given in ((0, 0), (17, 33), (47, 95)):
        word = (output // 16) * 3 + given // 32
        assert words[word, 16 * (given % 32) + output % 16] == weights[output, given]


def test_no_words_are_refused():
    with pytest.raises(UserError, match="no tensor is tuned"):
        TensorWords({})


@pytest.mark.parametrize(("weight", "most"), [(None, 0.015), (Format(4, 14), 0.03), (Format(4, 12), 0.09)])
def test_slopes_are_near_those_of_float64(weight, most):
    """Relative rms error over directions, compared with the derivative at the same weights."""
    made = encoder()
    tokens, embeddings, labels = sentences()
    weights = weight and {name: weight for name in made[0].parameter_shapes if is_weight(name)}
    model = integer_model(made, weights, embeddings=embeddings)
    found, expected = np.array([slopes(model, tokens, labels, position) for position in range(0, 4000, 100)]).T
    error = np.sqrt(np.mean((found - expected) ** 2) / np.mean(np.square(expected)))
    assert most / 20 < error < most


@pytest.mark.parametrize("made", [encoder, decoder])
def test_a_job_learns_and_writes_its_deltas_alone(made):
    tokens, embeddings, labels = sentences(count=20)
    model = integer_model(made(), embeddings=embeddings)
    before = {name: one.copy() for name, one in model.frozen.items()}
    perturbation = PerturbationTable(SOURCE)
    rates, settings = StepSettings(eps_shift=10).with_rates([0.008] * 60, [20] * 60, perturbation)
    job = ZerothOrderJob(model, SOURCE, settings)
    right = [(job.logits(tokens).argmax(axis=1) == labels).mean()]
    total = np.zeros_like(job.total)
    for rate in rates:
        (slope,) = job.step(tokens, labels, rate)
        total += slope.coefficient * perturbation.at(slope.position)
    right.append((job.logits(tokens).argmax(axis=1) == labels).mean())
    assert right[1] > right[0] + 0.2
    assert (job.total == total).all()
    assert job.total.nbytes // 2 == 255 * 31 * DELTA.width // 8 == 31_620
    assert all((before[name] == one).all() for name, one in model.frozen.items())


def test_only_chosen_tensors_move():
    tokens, embeddings, labels = sentences()
    network, _ = made = encoder()
    head = network.titles.index("head")
    model = integer_model(made, embeddings=embeddings, tuned=lambda name: name[0] == head)
    rates, settings = StepSettings().with_rates([0.1], [12], PerturbationTable(SOURCE))
    job = ZerothOrderJob(model, SOURCE, settings)
    assert (job.step(tokens, labels, rates[0])[0].coefficient, model.words) != (0, 0)
    moved = model.parameters(job.offsets()[0])
    assert {name for name in moved if (moved[name] != model.frozen[name]).any()} <= {(head, "weight"), (head, "bias")}
    assert model.words == 2


def test_sensitive_values_alone_move_in_the_order_of_their_tiles():
    tokens, embeddings, labels = sentences()
    network, _ = made = encoder()
    up, head = ((network.titles.index(one), "weight") for one in ("1.up", "head"))
    places = {up: np.array([3, 24, 30, 17 * 24 + 2]), head: np.array([7])}
    model = integer_model(made, embeddings=embeddings, tuned=places.__contains__, sensitive=places)
    assert model.words == 2
    numbers = np.arange(1, 63).reshape(2, 31) << 20
    moved = model.parameters(numbers)
    off = {name: (moved[name] - model.frozen[name]).reshape(-1) for name in moved}
    assert {name: np.flatnonzero(one).tolist() for name, one in off.items() if one.any()} == {
        name: one.tolist() for name, one in places.items()
    }
    # lanes of a tile in order, 16 outputs each: input 0 of output 1, 3 of 0, 6 of 1, then the next tile
    expected = [number << 20 for number in (2, 1, 3, 4)]
    fraction = 28 - model.transformer.format_of(up).fraction
    assert off[up][places[up]].tolist() == [one >> fraction for one in expected]
    rates, settings = StepSettings().with_rates([0.1], [12], PerturbationTable(SOURCE))
    job = ZerothOrderJob(model, SOURCE, settings)
    assert job.step(tokens, labels, rates[0])[0].coefficient


def test_saturations_are_named_by_operation():
    tokens, embeddings, labels = sentences()
    network, parameters = encoder()
    name = network.titles.index("0.up"), "bias"
    model = integer_model((network, {**parameters, name: np.full(40, 127.9)}), embeddings=embeddings)
    job = ZerothOrderJob(model, SOURCE, StepSettings())
    job.step(tokens, labels, 0)
    assert set(job.saturated_places) == {"0.up"}
    assert 0 < job.saturated_places["0.up"] <= job.saturations


def test_moved_parameters_saturate():
    network, parameters = encoder()
    head = network.titles.index("head")
    model = integer_model((network, {**parameters, (head, "weight"): np.full((5, 24), 7.9)}))
    moved = model.parameters(np.full((model.words, 31), DELTA.maximum))
    form = model.transformer.format_of((head, "weight"))
    assert form == Format(5, 13)
    assert (moved[head, "weight"] == np.rint(7.9 * 2**13) + (8 << 13)).all()
    moved = model.parameters(np.full((model.words, 31), 2 * DELTA.maximum))
    assert (moved[head, "weight"] == form.maximum).all()
    moved = model.parameters(np.full((model.words, 31), 1 << 28))
    assert (moved[head, "bias"] == model.frozen[head, "bias"] + (1 << 16)).all()


def test_rows_are_samples_without_embeddings():
    model = integer_model(vision())
    samples = Q8_16.from_float(np.random.default_rng(1).normal(0, 1, (4, 10, 12)))
    together = model.forward(samples, np.zeros((model.words, 31), np.int64), Narrower())
    alone = model.forward(samples[2:3], np.zeros((model.words, 31), np.int64), Narrower())
    assert (together[2:3] == alone).all()
    with pytest.raises(UserError, match=r"n x tokens x 12 values, not \(4, 120\)"):
        model.check(samples.reshape(4, -1), np.zeros(4, np.int64))
    with pytest.raises(UserError, match="1 to 10 tokens, not of 11"):
        model.check(np.zeros((4, 11, 12), np.int64), np.zeros(4, np.int64))


def test_batches_that_are_refused():
    tokens, embeddings, labels = sentences()
    model = integer_model(encoder(), embeddings=embeddings)
    with pytest.raises(UserError, match="11 labels for 12 samples"):
        model.check(tokens, labels[:11])
    with pytest.raises(UserError, match="tokens from 0 to 29"):
        model.check(np.full((12, 3), 30), labels)
    with pytest.raises(UserError, match="whose tokens are neighbours"):
        model.check(np.array([[1, -1, 2]]), labels[:1])
    with pytest.raises(UserError, match="not of 0"):
        model.check(np.array([[1, 2], [-1, -1]]), labels[:2])


def whole_logits(model, parts, positions, side, inputs):
    """Logits of the uncut model with both segments' perturbations added to its parameters."""
    moved = dict(model.frozen)
    for own, position in zip(parts, positions, strict=True):
        table = side * (1 << 28 - PerturbationTable(SOURCE).fraction - 10) * PerturbationTable(SOURCE).at(position)
        parameters = own.parameters(PerturbationTable(SOURCE).spread(table, own.words))
        moved |= {name: parameters[name] for name in own.order.places}
    there = inputs >= 0
    rows, lengths = model.embeddings[inputs[there]], tuple(map(int, there.sum(axis=1)))
    return model.transformer.run(moved, rows, lengths)[0][-1]


@pytest.mark.parametrize("made", [encoder, decoder])
def test_a_cut_changes_no_bit(made):
    """At any cut the projected gradient equals the uncut model's with two perturbations; deltas are folded per
    segment.
    """
    tokens, embeddings, labels = sentences(count=3)
    network, _ = built = made(layers=1)
    model, tables = integer_model(built, embeddings=embeddings), SoftmaxTables()
    assert network.titles.index("head") in network.cuts
    for cut in network.cuts:
        split = Split(cut, 1, 2)
        job = ZerothOrderJob(model, SOURCE, StepSettings(split=split, shift=20), position=77)
        parts = model.parts(cut)
        first, others = job.layout.positions(77)[0]
        slopes = job.step(tokens, labels, 900)
        assert len(slopes) == len(others) == 2
        for slope, second in zip(slopes, others, strict=True):
            plus, minus = (whole_logits(model, parts, (first, second), side, tokens) for side in (1, -1))
            differences, _ = loss_differences(plus, minus, labels, tables)
            assert slope.difference == differences.sum() != 0
        assert (job.logits(tokens) != model.forward(tokens, np.zeros((model.words, 31), int), Narrower())).any()


def test_each_part_has_a_table_of_its_own():
    _, embeddings, _ = sentences()
    network, _ = made = encoder(hidden=100, heads=4, wide=300)
    model = integer_model(made, embeddings=embeddings, lanes=8, columns=8)
    head = network.titles.index("head")
    job = ZerothOrderJob(model, SOURCE, StepSettings(split=Split(head, 2, 4)))
    first, second = model.parts(head)
    assert (first.words > TIMES, second.words) == (True, 1 + 13)
    assert np.array_equal(np.concatenate([first.rows, second.rows]), np.arange(TIMES + 14))
    assert job.layout.spans[0] == TIMES
    assert np.gcd(job.layout.span // 2, SOURCE.period) == 1
    job.total = np.random.default_rng(0).integers(-9, 9, (2, *SOURCE.base.shape))
    other = ZerothOrderJob(model, SOURCE, StepSettings(split=Split(head)))
    other.rows = job.rows
    for mine, theirs in zip(job.offsets(), other.offsets(), strict=True):
        assert np.array_equal(mine, theirs)


def test_cuts_that_are_refused():
    _, embeddings, _ = sentences()
    network, _ = made = encoder()
    model = integer_model(made, embeddings=embeddings)
    middle = network.titles.index("0.attention")
    with pytest.raises(UserError, match=r"0.attention is no place for a cut \(5\): behind it norm and 0.q and"):
        model.parts(middle)
    with pytest.raises(UserError, match=r"0.sum is no place .*: behind it norm and 0.output are both read, .*; cut at"):
        model.parts(network.titles.index("0.sum"))
    with pytest.raises(UserError, match="cut = 99: encoder of 29 operations is cut at 1 or above"):
        model.parts(99)
    own, _ = built = decoder(layers=1)
    with pytest.raises(UserError, match=r"0.q is no place .*: behind it its inputs and 0.norm are both read"):
        integer_model(built).parts(own.titles.index("0.q"))
    alone = integer_model(made, embeddings=embeddings, tuned=lambda name: name[0] == middle + 1)
    with pytest.raises(UserError, match="nothing behind it is tuned"):
        alone.parts(network.titles.index("head"))
    with pytest.raises(UserError, match="nothing before it is tuned"):
        alone.parts(1)


def test_networks_without_a_pooling_are_refused():
    made, drawn = TransformerBuilder("own", 8), Drawn(1)
    made.linear("head", INPUTS, drawn.weight(3, 8))
    with pytest.raises(UserError, match="own gives outputs for each token"):
        integer_model(made.finish()).label_count("cross_entropy")
