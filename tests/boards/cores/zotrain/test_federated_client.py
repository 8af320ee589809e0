"""Federation of simulated cores and programs: bit-identical server and clients; damaged messages are refused."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fabtune.boards.cores.zotrain.federated_client import CoreClient
from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.boards.host.driver import Core
from fabtune.golden.cores.zotrain.registers import CORE
from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.folding import folded
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import network_from
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.train.conversion import Converter
from fabtune.golden.train.federated.client import Client, ClientTask
from fabtune.golden.train.federated.configuration import FederatedConfig
from fabtune.golden.train.federated.federation import faulty, federate
from fabtune.golden.train.federated.model import SplitModel
from fabtune.golden.train.federated.server import Server
from fabtune.golden.train.zo.parameter_order import ArrayOrder
from fabtune.golden.train.zo.periodic import Periodic
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice

from ....small_cores import NETWORK, zotrain

SPEC = zotrain()
LAYERS, STAGE = 6, 2
"""Number of layers before the cut, and the stage after it."""


def _config(**changes):
    source = Periodic(PezoSpec(), SPEC.mapping.width, 10)
    order = ArrayOrder(NETWORK, SPEC.lanes, SPEC.columns, STAGE)
    start = FederatedConfig(
        rounds=3, clients=4, fraction=0.75, steps=3, batch=4, rate=2e-3, eps=2**-10, first=2, second=3, source=source,
        order=order,
    )  # fmt: skip
    return replace(start, **changes)


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(3)
    return module_of(network_from(NETWORK))


@pytest.fixture(scope="module")
def owned():
    rng = np.random.default_rng(5)
    return [
        Samples(rng.integers(0, 256, (count, 1, 6, 7)).astype(np.uint8), rng.integers(0, 3, count))
        for count in (9, 4, 7, 12)
    ]


def _core(module, config, samples):
    device = SimulatedDevice(compiled_core(SPEC), None, 0)
    trainer = ZerothOrderTrainer(Core(CORE, device, device, device.interrupt), SPEC)
    frozen = Converter().stages(folded(network_from(NETWORK), module))
    return CoreClient(trainer, frozen, config, samples)


@pytest.mark.slow
def test_cores_and_programs_take_part_together(module, owned):
    config = _config()
    cores = [_core(module, config, samples) for samples in owned[:2]]
    model = SplitModel(copy.deepcopy(module), LAYERS, config)
    result = federate(model, owned, owned[0], transport=faulty(0), cores=cores)
    assert result.bit_identical
    assert len(result.refused) == config.rounds
    assert all("its check sum is wrong" in one or "bytes" in one or "begins with" in one for one in result.refused)
    assert len(result.missing) == 1
    assert cores[0].evaluations[0] > 0
    assert cores[0].evaluations[1] == config.second * cores[0].evaluations[0]
    assert np.isfinite(cores[0].losses).all()


def test_the_server_refuses_any_flipped_bit_of_a_cores_message(module, owned):
    config = _config(clients=1, fraction=1.0)
    server = Server(SplitModel(copy.deepcopy(module), LAYERS, config), [len(owned[0])])
    core = _core(module, config, owned[0])
    core.synchronise(server.total)
    data = core.train(server.round.tasks[0]).to_bytes()
    for bit in range(8 * len(data)):
        damaged = (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(len(data), "little")
        with pytest.raises(UserError, match="is refused"):
            server.receive(damaged, "core")
    server.receive(data, "core")
    assert torch.equal(server.rebuilt(0), core.integers())
    assert len(data) == 36 + config.steps * (1 + config.first * config.second)


def test_a_core_moves_as_its_message_says_and_a_program_nearly_so(module, owned):
    """The core rounds its logits, a program does not: their scalars differ slightly."""
    config = _config(clients=1, fraction=1.0, rate=1e-3)
    model = SplitModel(copy.deepcopy(module), LAYERS, config)
    core, program = _core(module, config, owned[3]), Client(model, owned[3])
    assert torch.equal(core.integers(), program.integers())
    task = ClientTask(0, 0, 10**12 + 5)
    mine, theirs = core.train(task), program.train(task)
    found, expected = (
        np.array([one.coefficients for one in message.steps], float).reshape(-1) for message in (mine, theirs)
    )
    assert np.corrcoef(found, expected)[0, 1] > 0.9
    assert core.losses == pytest.approx(program.losses, rel=0.02)


def test_what_does_not_fit_is_refused(module, owned):
    for changes, refusal in (
        ({"order": ArrayOrder(NETWORK, 16, 2, STAGE), "source": Periodic(PezoSpec(), 32, 10)}, "whose order is 16 x 2"),
        ({"source": Periodic(PezoSpec(strategy="pool"), 64, 10)}, "the core's generator is not the federation's"),
        ({"order": ArrayOrder(NETWORK, 16, 4, 1), "batch": 5}, "cut = 1: .* keep outputs of 4 samples, a batch of 5"),
        ({"eps": 1e-3}, "eps = 0.001: a core's is a power of two"),
    ):
        with pytest.raises(UserError, match=refusal):
            _core(module, _config(**changes), owned[3])
    with pytest.raises(UserError, match="a source of 32 lanes: an array of 16 x 4 cut 2 takes 64"):
        _config(source=Periodic(PezoSpec(), 32, 10))
    core = _core(module, _config(rate=1e4), owned[3])
    with pytest.raises(UserError, match=r"the core clipped .* coefficients: lower the rate"):
        core.train(ClientTask(0, 0, 0))
