"""A small federation that learns within seconds."""

import copy
from dataclasses import replace

import pytest

from fabtune.golden.datasets.tasks import task_of
from fabtune.golden.importers.layers.folding import deployed_module
from fabtune.golden.models.network import deployed
from fabtune.golden.models.text import preset
from fabtune.golden.train.federated.configuration import FederatedConfig
from fabtune.golden.train.federated.cost_model import cut_of
from fabtune.golden.train.federated.federation import federate
from fabtune.golden.train.federated.model import SplitModel
from fabtune.golden.train.federated.shards import shards
from fabtune.golden.train.pretrain import Pretraining, pretrained


class Digits:
    """Digits network, pre-trained, on digits with the drift "camera"."""

    def __init__(self):
        self.task = task_of("digits", drift="camera")
        self.network = preset("digits")
        module, _ = pretrained(self.network, self.task.pretrain, Pretraining(40, 20, 0.1, 0))
        self._module = deployed_module(self.network, module)

    @property
    def module(self):
        """Copy of the pre-trained module."""
        return copy.deepcopy(self._module)

    def run(self, stage=-1, transport=None, seed=0, **settings):
        """Run a federation of ten clients."""
        config = FederatedConfig(seed=seed, **settings)
        module = self.module
        owned = shards(self.task.tune, config.clients, 1.0, seed)
        model = SplitModel(module, cut_of(deployed(self.network), stage), config)
        return federate(model, owned, self.task.test, transport)

    def short(self, **settings):
        """Configuration of a short federation."""
        return replace(FederatedConfig(rounds=2, steps=2, batch=8, rate=0.007), **settings)


@pytest.fixture(scope="session")
def digits():
    return Digits()
