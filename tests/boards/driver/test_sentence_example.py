"""C example of a package with a user's language model, on the golden core."""

import numpy as np
import pytest

from fabtune.boards.cores.zostream.sentence_example import network_of, sentence_example
from fabtune.boards.example.package import example_files
from fabtune.boards.example.sentence_task import SentenceTask
from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.boards.packaging import DRIVER
from fabtune.golden.axi.register_map import RegisterMap, c_header
from fabtune.golden.cores.shell import SHELL
from fabtune.golden.cores.zostream.golden_core import GoldenZostream
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.settings import build
from fabtune.golden.train.text.integer_tuning import SentenceTuning
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tasks import Texts, TextTask
from fabtune.golden.train.zo.finetune import ZoSettings
from fabtune.golden.train.zo.integer import core_settings
from fabtune.golden.train.zo.schedule import Schedule
from fabtune.golden.train.zo.transformer_tuning import Selection
from fabtune.scripts.outputs import OutputFolder

from .test_example import compiled, needs_compiler, run_on

SPEC = build(ZostreamSpec, [], "tiny")
PROMPTS = ("it was bad", "it was good")
WORDING = Wording("{0} It was", (" bad", " great"))
TEXTS = Texts(tuple(f"the film was {word}" for word in ("bad", "good", "poor", "fine") * 3), np.arange(12) % 2)


def task_of(name, encoder, decoder):
    """Task of an encoder with prompts, a decoder with label words and a first layer, or an encoder with a delta."""
    path, wording = (decoder, WORDING) if name == "decoder" else (encoder, None)
    model = sentence_model(path, PROMPTS, wording).calibrated(TEXTS.sentences)
    delta = None
    if name == "delta":
        settings = core_settings(ZoSettings("pezo-otf", 0.3, 2.0**-10, Schedule(2, 4, 0)))
        named = TextTask("own", PROMPTS, TEXTS, TEXTS)
        tuning = SentenceTuning(model, named, settings, lanes=SPEC.lanes, columns=SPEC.columns)
        tuning.run()
        delta = tuning.delta()
    selection = Selection(from_layer=1 if name == "decoder" else None)
    texts = {"tune": TEXTS, "test": TEXTS}
    return SentenceTask(name="csv:own", model=model, **texts, selection=selection, delta=delta, steps=3, batch=4)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", ["encoder", "decoder", "delta"])
def test_the_example_prints_what_golden_says(name, tiny_transformer, tiny_decoder, tmp_path):
    task = task_of(name, tiny_transformer, tiny_decoder)
    example = sentence_example(SPEC, task)
    names = [f"fabtune{part}.{kind}" for part in ("", "_text", "_options") for kind in "ch"]
    files = {f"driver/{one}": (DRIVER / one).read_text() for one in [*names, "fabtune_uio.h"]}
    files["driver/fabtune_shell.h"] = c_header(RegisterMap("fabtune_shell", SHELL), 0)
    files["driver/fabtune_zostream.h"] = c_header(SPEC.registers.map, SPEC.address)
    OutputFolder(tmp_path, force=True, default=False).write(files | example_files(example, "linux"))
    compiled("zostream", tmp_path)
    device = GoldenDevice(SPEC, GoldenZostream(SPEC, [network_of(SPEC, task)[0]]))
    device.simulated = 0  # the golden core has no clock
    status, printed = run_on(device, SPEC, example.memory.end, tmp_path)
    assert (status, printed[-1]) == (0, f"example: {example.line}")
