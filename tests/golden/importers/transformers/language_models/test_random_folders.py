"""Random `transformers` folders compared with the library: equal values, or refused.

``pytest -m slow tests/golden/importers/transformers/language_models/test_random_folders.py`` prints the counts.
"""

from collections import Counter

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.language_models.folder import read_folder
from fabtune.golden.transformer.float_model import run_float

from .random_folders import CLASSES, DECODERS, RandomFolder

transformers = pytest.importorskip("transformers")
MODELS = 200


def library_values(random):
    """Hidden states by the library, and logits of decoders; None if the library cannot load the folder."""
    auto = transformers.AutoModelForCausalLM if random.kind in DECODERS else transformers.AutoModel
    options = {} if random.kind in (*DECODERS, "distilbert") else {"add_pooling_layer": False}
    try:
        model, info = auto.from_pretrained(
            random.folder, dtype=torch.float32, local_files_only=True, output_loading_info=True, **options
        )
        missing = info["missing_keys"]
        if missing - {"lm_head.weight"}:
            return None
        model = model.eval().double()
        with torch.no_grad():
            found = [model.base_model(torch.tensor([one])).last_hidden_state[0] for one in random.sentences]
            hidden = torch.cat(found)
            logits = None if missing or random.kind not in DECODERS else model.get_output_embeddings()(hidden)
    except Exception:
        return None
    return hidden.numpy(), None if logits is None else logits.numpy()


def imported_values(random):
    """Hidden states and logits by the normal form."""
    found = read_folder(random.folder)
    network, parameters = found.builder.finish()
    rows = np.concatenate([found.rows(np.array(one)) for one in random.sentences])
    hidden = run_float(network, parameters, rows, tuple(map(len, random.sentences)))[-1]
    return hidden, None if found.head is None else hidden @ found.head.astype(np.float64).T


def outcome(random):
    """Outcome of an import, and details of a wrong one."""
    expected = library_values(random)
    try:
        found = imported_values(random)
    except UserError as error:
        return "refused, as by the library" if expected is None else "refused", str(error)
    except Exception as error:
        return "traceback", repr(error)
    if expected is None:
        return "wrong", "the library loads no such model"
    for own, wanted in zip(found, expected, strict=True):
        if (own is None) != (wanted is None):
            return "wrong", "a head"
        if own is not None and not np.allclose(own, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max()):
            return "wrong", f"off by {np.abs(own - wanted).max():.3g} of {np.abs(wanted).max():.3g}"
    return "right", ""


@pytest.fixture
def quiet():
    """Suppress the library's progress bars and reports."""
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(before)
    logging.enable_progress_bar()


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
def test_what_is_accepted_is_right(tmp_path, kind, capfd, quiet):
    counts, reasons = Counter(), []
    for seed in range(MODELS):
        random = RandomFolder(tmp_path / str(seed), kind, seed, transformers)
        word, reason = outcome(random)
        counts[word] += 1
        if word in ("wrong", "traceback"):
            reasons.append(f"{random.folder}: {word}, {reason}")
    with capfd.disabled():
        print(f"{kind}: {dict(counts)}")
    assert not reasons, "\n".join(reasons)
    assert counts["right"] > MODELS / 5
