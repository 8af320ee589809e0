"""Server and clients: equal bits in any order, a single pass for any number of steps, and the paper's figures."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.models.layers import Linear
from fabtune.golden.models.module import module_of
from fabtune.golden.models.network import Network, deployed
from fabtune.golden.models.text import NETWORKS, network_from, preset
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.train.federated.client import Client
from fabtune.golden.train.federated.configuration import FederatedConfig
from fabtune.golden.train.federated.cost_model import cut_of, memory_bytes, part_flops, saving, stage_of, step_flops
from fabtune.golden.train.federated.fedavg import fedavg
from fabtune.golden.train.federated.federation import faulty, federate
from fabtune.golden.train.federated.message import Message
from fabtune.golden.train.federated.model import SplitModel
from fabtune.golden.train.federated.server import Server, average
from fabtune.golden.train.federated.shards import shards
from fabtune.golden.train.zo import Periodic
from fabtune.golden.zo.scalars import Scalars

SOURCES = {
    "pool": Periodic(PezoSpec(strategy="pool")),
    "otf8": Periodic(PezoSpec()),
    "otf14": Periodic(build(BLOCKS["pezo"], [], "otf14"), fraction=10),
}


def replayed(model, total_shares):
    """Average of clients, with each step of each client added to a separate complete vector."""
    source, whole = model.config.source, sum(share for share, _ in total_shares)
    result = []
    for part, weights in enumerate(model.weights):
        start = torch.cat([torch.zeros(0, dtype=torch.int32), *weights.integers])
        weighted = np.zeros(len(start), object)
        for share, moves in total_shares:
            moved = torch.zeros_like(start)
            for position, coefficient in moves[part]:
                source.add_(moved, position, 0, (coefficient + (1 << 31)) % (1 << 32) - (1 << 31))
            weighted = weighted + share * moved.numpy().astype(object)
        # Python rounds half to even
        rounded = [round(Fraction(int(one), whole)) for one in weighted]
        summed = (start.numpy().astype(object) + rounded + (1 << 31)) % (1 << 32) - (1 << 31)
        result.append(torch.from_numpy(summed.astype(np.int32)))
    return torch.cat(result)


def random_message(server, client, seed, largest_shift=24):
    task, config, rng = server.round.tasks[client], server.model.config, random.Random(seed)
    steps = [
        Scalars(
            rng.randint(0, largest_shift),
            tuple(rng.randint(-127, 127) for _ in range(config.first * config.second)),
        )
        for _ in range(config.steps)
    ]
    return Message(
        task.round,
        client,
        task.position,
        server._shares[client],
        config.first,
        config.second,
        tuple(steps),
    )


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("cut", [0, 2])
def test_the_one_pass_is_the_replay_bit_for_bit(name, cut):
    """Also for coefficients so long that everything wraps."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(50, 31), nn.ReLU(), nn.Linear(31, 7))
    config = FederatedConfig(
        clients=4, fraction=0.75, steps=9, first=1 if cut == 0 else 2, second=3, source=SOURCES[name]
    )
    server = Server(SplitModel(module, cut, config), [5, 1, 70, 24])
    messages = {client: random_message(server, client, client) for client in server.round.tasks}
    moves = {client: server.model.layout.moves(one.position, one.steps) for client, one in messages.items()}
    for client, message in messages.items():
        server.receive(message.to_bytes(), "x")
        assert torch.equal(server.rebuilt(client), replayed(server.model, [(1, moves[client])]))
    expected = replayed(server.model, [(one.share, moves[client]) for client, one in messages.items()])
    assert not torch.equal(server.model.integers(), expected)
    server.close()
    assert torch.equal(server.model.integers(), expected)


def test_a_network_with_residuals_is_cut_where_none_passes_by():
    network = network_from("2x4x4 conv2k1 relu conv2k3p1 add@2,1 relu conv4k1 relu flatten fc3")
    module = module_of(network).eval()
    assert network.cuts == (0, 1, 2, 4, 5, 6, 7, 8)
    assert [cut_of(network, stage) for stage in (0, 1, 2, 3, -1)] == [0, 2, 5, 8, 8]
    config = FederatedConfig(clients=1, fraction=1.0, batch=10, first=1, second=1)
    x = torch.randn(5, 2, 4, 4)
    for cut in (2, 5):
        first, second = SplitModel(module, cut, config).parts
        assert torch.equal(second(first(x)), module(x))
    # during the 4 x 4 x 4 ReLU: batch and both tensors; during the sum: batch, both terms, result
    weights = 4 * sum(one.numel() for one in module.parameters())
    assert memory_bytes(module, 0, (2, 4, 4), config) == weights + 4 * 10 * max(32 + 64 + 64, 32 * 4) + 8


def test_a_cut_beside_a_residual_is_refused():
    network = network_from("2x4x4 conv2k1 relu conv2k1 relu conv2k3p1 add@4,1 relu flatten fc3")
    with pytest.raises(UserError, match=r"stage = 2: .* is not cut there, as a residual or a concatenation passes by"):
        cut_of(network, 2)
    assert stage_of(network, 4) in (1, 3)


def test_any_number_of_steps_is_one_short_vector():
    """1,000 client steps of FedSPZO on the fan network, 18 moves each; 100,000 in tests/bench/test_federated.py."""
    torch.manual_seed(0)
    network = deployed(preset("fan"))
    module = module_of(network)
    config = FederatedConfig(clients=1, fraction=1, steps=1000, source=SOURCES["pool"])
    server = Server(SplitModel(module, cut_of(network, -1), config), [1])
    message = random_message(server, 0, 0, 5)
    moves = server.model.layout.moves(message.position, message.steps)
    assert [len(one) for one in moves] == [2_000, 16_000]
    server.receive(message.to_bytes(), "x")
    assert server.sum_of(message)[0].shape == (511, 8)
    expected = server.model.integers()
    at = server.model.weights[0].count
    for part, where in zip(moves, (expected[:at], expected[at:]), strict=True):
        for position, coefficient in part:
            config.source.add_(where, position, 0, coefficient)
    assert torch.equal(server.rebuilt(0), expected)


def test_averages_are_exact_and_rounded_half_to_even():
    one, other = (torch.tensor([1, 3, -1, -3, 2**31 - 1, -(2**31), 7], dtype=torch.int32) * s for s in (1, 0))
    assert average([one, other], [1, 1]).tolist() == [0, 2, 0, -2, 2**30, -(2**30), 4]
    assert average([one, one], [1 << 20, 3]).tolist() == one.tolist()
    assert average([one, other], [2, 1]).tolist() == [1, 2, -1, -2, 1431655765, -1431655765, 5]


# -- promised figures --------------------------------------------------------------------------------------------------


def test_five_rounds_with_faults_end_in_the_same_bits(digits):
    """10 clients, 20% sampled, any order; one drops out, and in every round one sends garbage first."""
    outcome = digits.run(rate=0.007, transport=faulty(0))
    assert outcome.bit_identical
    assert len(outcome.refused) == 5
    assert all(line.startswith("client ") and ": " in line for line in outcome.refused)
    assert len(outcome.missing) == 1
    # no accepted message is lost: damaged messages were sent again
    assert outcome.curve[-1].accuracy > outcome.curve[0].accuracy + 0.2
    assert outcome.curve[-1].upload_bytes == 5 * 2 * 240


def test_the_order_of_arrival_changes_no_bit(digits):
    ends = []
    for turn in (1, -1):
        module, config = digits.module, digits.short(fraction=0.5)

        owned = shards(digits.task.tune, 10, 1.0, 0)
        model = SplitModel(module, 6, config)
        outcome = federate(model, owned, digits.task.test, lambda _, uploads, turn=turn: uploads[::turn])
        assert outcome.bit_identical
        ends.append([one.clone() for one in module.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*ends, strict=True))


@pytest.mark.slow
def test_less_forward_work_than_plain_zeroth_order_at_equal_loss(digits):
    """Eight rounds, mean of three seeds; each method with its best rate."""
    flops, whole = part_flops(digits.network, -1), sum(part_flops(digits.network, -1))
    ours = [digits.run(rate=0.009, rounds=8, steps=6, seed=seed).curve[-1] for seed in range(3)]
    work = sum(np.dot(one.evaluations, flops) for one in ours)
    for queries, steps, slow in ((5, 5, 0.007), (1, 25, 0.002)):
        how = {"stage": 0, "first": 1, "second": queries, "steps": steps, "rate": slow, "rounds": 8}
        theirs = [digits.run(**how, seed=seed).curve[-1] for seed in range(3)]
        assert 1.6 <= whole * sum(one.evaluations[1] for one in theirs) / work <= 3
        assert sum(one.loss for one in ours) <= sum(one.loss for one in theirs)


@pytest.mark.parametrize("name", NETWORKS)
def test_memory_is_that_of_mezo(name):
    network = preset(name)
    module = module_of(deployed(network))
    config = FederatedConfig()
    mezo = memory_bytes(module, 0, network.input_shape, replace(config, first=1, second=1))
    for stage in (-1, stage_of(network, config.second)):
        ours = memory_bytes(module, cut_of(deployed(network), stage), network.input_shape, config)
        assert mezo < ours <= 1.005 * mezo


def test_memory_counts_the_intermediate_output():
    module = nn.Sequential(nn.Linear(2, 30), nn.Flatten(), nn.Linear(30, 3), nn.Linear(3, 40))
    config = FederatedConfig(batch=10, first=1, second=1)
    weights = 4 * (90 + 93 + 160)
    # batch, input and output of the largest layer; a view takes no memory
    assert memory_bytes(module, 0, (2,), config) == weights + 4 * 10 * (2 + 3 + 40) + 8
    assert memory_bytes(module, 2, (2,), config) == weights + 4 * 10 * (2 + 30 + 3 + 40) + 8


def test_a_thousandth_of_fedavgs_upload():
    """LeNet-5, twelve steps a round: 240 bytes instead of 246,824."""
    step = Scalars(0, (0,) * 16)
    message = Message(0, 0, 0, 1, 2, 8, (step,) * FederatedConfig().steps).to_bytes()
    assert 4 * preset("lenet5-mnist").parameters >= 1000 * len(message)


def test_fedavg_learns_and_uploads_all_weights(digits):
    config = FederatedConfig(rate=0.05)
    outcome = fedavg(digits.module, config, shards(digits.task.tune, 10, 1.0, 0), digits.task.test)
    assert outcome.curve[-1].accuracy > 0.8
    assert outcome.curve[-1].upload_bytes == 5 * 2 * 4 * digits.network.parameters
    with pytest.raises(UserError, match="lower its rate"):
        fedavg(digits.module, replace(config, rate=1e9), shards(digits.task.tune, 10, 1.0, 0), digits.task.test)


# -- work ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digits", "fan", "har", "lenet5-mnist"])
@pytest.mark.parametrize("stage", [-1, 1])
def test_every_layer_runs_as_often_as_is_counted(name, stage):
    network = preset(name)
    torch.manual_seed(0)
    module = module_of(deployed(network))
    calls = [0] * len(module)
    for at, layer in enumerate(module):
        layer.register_forward_hook(lambda *_, at=at: calls.__setitem__(at, calls[at] + 1))
    config = FederatedConfig(first=2, second=3)
    cut = cut_of(deployed(network), stage)
    model = SplitModel(module, cut, config)
    model.step(torch.rand(4, *network.input_shape), torch.zeros(4, dtype=torch.long), 0)
    assert calls == [4] * cut + [12] * (len(module) - cut)
    assert model.evaluations == [4 * 4, 12 * 4]
    flops = part_flops(network, stage)
    assert step_flops(flops, config) == 4 * flops[0] + 12 * flops[1]
    assert 4 * step_flops(flops, config) == sum(np.multiply(model.evaluations, flops))


def test_a_cut_saves_where_parameters_are_many_and_work_is_little():
    """LeNet-5 by hand: 850,794 operations (InstantFT, table 1); its convolutions have 2,572 of 61,706 parameters."""
    lenet = preset("lenet5-mnist")
    behind = 2 * 58_920 + 120 + 84 + 10 + 120 + 84
    work = 850_794 - behind + 8 * behind
    assert saving(lenet, 2, 8) == pytest.approx(61_706 * 850_794 / ((2_572 + 59_134 / 8) * work))
    assert stage_of(lenet, 8) == 2
    assert saving(lenet, 0, 1) == 1
    # fully connected layers have one parameter per multiply-accumulate: no predicted saving
    assert all(saving(preset("fan"), stage, 8) < 1 for stage in (1, 2))
    assert stage_of(preset("fan"), 8) == 2
    assert stage_of(preset("digits"), 8) == 1
    assert stage_of(Network("one", (4,), (Linear(3),)), 8) == 0


def test_a_step_is_the_mean_of_slopes():
    """Compared with the formula in floats, on a model linear in each segment, ignoring large weights."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    config = FederatedConfig(first=2, second=3, rate=0.5, eps=0.01)
    model = SplitModel(module, 1, config)
    inputs, labels = torch.randn(8, 6), torch.randint(3, (8,))
    before = [one.detach().clone().double() for one in module.parameters()]
    _, loss = model.step(inputs, labels, 1000)

    def loss_at(z1, z2, sign):
        moved = [*before[:2], *before[2:]]
        z = [*torch.split(z1, [30, 5]), *torch.split(z2, [15, 3])]
        moved = [b + sign * model.eps * one.view(b.shape) for b, one in zip(before, z, strict=True)]
        between = inputs.double() @ moved[0].T + moved[1]
        return float(nn.functional.cross_entropy(between @ moved[2].T + moved[3], labels))

    expected, seen = [torch.zeros(35, dtype=torch.float64), torch.zeros(18, dtype=torch.float64)], []
    for first, second in model.layout.positions(1000):
        z1 = config.source.draw(first, 35, dtype=torch.float64)
        for position in second:
            z2 = config.source.draw(position, 18, dtype=torch.float64)
            losses = loss_at(z1, z2, 1), loss_at(z1, z2, -1)
            seen += losses
            slope = (losses[0] - losses[1]) / (2 * model.eps)
            expected[0] += slope * z1 / 6
            expected[1] += slope * z2 / 6
    assert loss == pytest.approx(np.mean(seen), rel=1e-5)
    found = torch.cat(
        [
            (then - now.detach()).view(-1) / config.rate
            for then, now in zip(before, model.module.parameters(), strict=True)
        ]
    )
    # a byte holds the largest scalar within 1/254
    assert torch.allclose(found, torch.cat(expected), atol=0.02 * float(torch.cat(expected).abs().max()))


# -- refusals --------------------------------------------------------------------------------------------------------


def at_the_door(digits):
    config = digits.short(clients=4, fraction=0.75)
    owned = shards(digits.task.tune, 4, 1.0, 0)
    server = Server(SplitModel(digits.module, 6, config), [len(one) for one in owned])
    return server, owned


def test_messages_that_do_not_fit_the_round_are_refused_and_others_kept(digits):
    server, _ = at_the_door(digits)
    asked = sorted(server.round.tasks)
    stranger = next(client for client in range(4) if client not in asked)
    good = {client: random_message(server, client, client) for client in asked}
    server.receive(good[asked[0]].to_bytes(), "a")
    one = good[asked[1]]
    wrong = {
        "of round 1; this is round 0": replace(one, round=1),
        f"client {stranger} has no task": replace(one, client=stranger),
        "client 4000000000 has no task": replace(one, client=4_000_000_000),
        "has sent its message already": good[asked[0]],
        "position is 5": replace(one, position=5),
        "share is 1, not": replace(one, share=1),
        "P2 is 4, not 8": replace(one, second=4, steps=tuple(Scalars(0, (1,) * 8) for _ in one.steps)),
        "number of steps is 1, not 2": replace(one, steps=one.steps[:1]),
    }
    for complaint, message in wrong.items():
        with pytest.raises(UserError, match=f"a message from b is refused: .*{complaint}"):
            server.receive(message.to_bytes(), "b")
    with pytest.raises(UserError, match="0 bytes are no message"):
        server.receive(b"", "c")
    assert server.round.messages == {asked[0]: good[asked[0]]}
    assert len(server.round.refused) == len(wrong) + 1
    assert server.round.missing == asked[1:]
    server.receive(one.to_bytes(), "b")
    done = server.close()
    assert done.missing == asked[2:]


def test_a_round_without_messages_moves_nothing(digits):
    server, _ = at_the_door(digits)
    before = server.model.integers()
    server.close()
    assert torch.equal(server.model.integers(), before)
    assert server.number == 1


def test_a_client_that_missed_rounds_is_synchronised_in_one_pass(digits):
    server, owned = at_the_door(digits)
    late = Client(SplitModel(digits.module, 6, server.model.config), owned[0])
    for seed in range(3):
        for client in server.round.tasks:
            server.receive(random_message(server, client, seed, 3).to_bytes(), "x")
        server.close()
    late.synchronise(server.total)
    assert torch.equal(late.model.integers(), server.model.integers())


def test_no_two_clients_share_a_perturbation(digits):
    server, _ = at_the_door(digits)
    seen = []
    for _ in range(3):
        for task in server.round.tasks.values():
            for number in range(server.model.config.steps):
                at = task.position + number * server.model.layout.span
                seen += [
                    position for first, others in server.model.layout.positions(at) for position in (first, *others)
                ]
        server.close()
    assert len(seen) == len(set(seen)) == 3 * 3 * 2 * 18


def test_a_loss_that_is_not_finite_leaves_the_weights(digits):
    model = SplitModel(digits.module, 6, digits.short())
    before = model.integers()
    inputs = torch.full((4, 1, 8, 8), float("nan"))
    with pytest.raises(UserError, match="loss is nan"):
        model.step(inputs, torch.zeros(4, dtype=torch.long), 0)
    with pytest.raises(UserError, match="overflows"):
        SplitModel(digits.module, 6, digits.short(rate=1e9)).step(
            torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.long), 0
        )
    assert torch.equal(model.integers(), before)


# -- settings --------------------------------------------------------------------------------------------------------

MISTAKES = {
    "rounds = 0": {"rounds": 0},
    "clients = 2049": {"clients": 2049},
    "steps = 65536": {"steps": 65536},
    "first = 256": {"first": 256},
    "second = 0": {"second": 0},
    "fraction = 0": {"fraction": 0},
    "fraction = nan": {"fraction": float("nan")},
    "rate = inf": {"rate": float("inf")},
    "eps = 0": {"eps": 0},
    "seed = -1": {"seed": -1},
}


@pytest.mark.parametrize("complaint", MISTAKES)
def test_settings_out_of_range_are_refused(complaint):
    with pytest.raises(UserError, match=complaint):
        FederatedConfig(**MISTAKES[complaint])


def test_models_that_cannot_be_cut_are_refused(digits):
    for cut in (-1, 7):
        with pytest.raises(UserError, match=f"cut = {cut}"):
            SplitModel(digits.module, cut, FederatedConfig())
    with pytest.raises(UserError, match="no layer from there on has parameters"):
        SplitModel(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), 1, FederatedConfig())
    with pytest.raises(UserError, match="eps = 1e-06 is below"):
        FederatedConfig(eps=1e-6)
    with pytest.raises(UserError, match="3 layers with weights"):
        cut_of(digits.network, 3)
    config = FederatedConfig(rounds=1 << 31, clients=2048, fraction=1, steps=65535)
    with pytest.raises(UserError, match="more positions than 64 bits"):
        Server(SplitModel(digits.module, 6, config), [1] * 2048)


@pytest.mark.parametrize("alpha", [1e-9, 0.1, 1.0, 100.0])
def test_shards_are_all_samples_once(digits, alpha):
    tune = digits.task.tune
    owned = shards(tune, 10, alpha, 3)
    assert min(map(len, owned)) >= 1
    rows = np.concatenate([one.inputs for one in owned]).reshape(len(tune), -1)
    assert sorted(map(bytes, rows)) == sorted(bytes(row) for row in tune.inputs.reshape(len(tune), -1))
    most = np.mean([np.bincount(one.labels).max() / len(one) for one in owned])
    assert most > 0.6 if alpha < 0.2 else most < 0.6


def test_even_shards_are_all_samples_once(digits):
    tune = digits.task.tune[np.arange(497)]
    owned = shards(tune, 10, float("inf"), 3)
    assert sorted(map(len, owned)) == [49] * 3 + [50] * 7
    rows = np.concatenate([one.inputs for one in owned]).reshape(len(tune), -1)
    assert sorted(map(bytes, rows)) == sorted(bytes(row) for row in tune.inputs.reshape(len(tune), -1))
    assert np.mean([np.bincount(one.labels).max() / len(one) for one in owned]) < 0.25


def test_shards_that_cannot_be_are_refused(digits):
    for alpha in (0, float("nan")):
        with pytest.raises(UserError, match="alpha"):
            shards(digits.task.tune, 10, alpha, 0)
    with pytest.raises(UserError, match="500 samples are not enough for 501"):
        shards(digits.task.tune, 501, 1.0, 0)
