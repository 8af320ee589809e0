"""`fabtune which`: the cores, presets and boards for a network, what each tunes, and the reasons against the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...boards.board import BOARDS, DEFAULT_MHZ
from ...golden.errors import UserError
from ...golden.importers.transformers.own_model import own_transformer
from ...golden.models.network import Network
from ...golden.registry import CORES
from ...golden.stream.machine.cost_model import on_paper
from ...golden.transformer.blocks import Transformer
from ..own_network import OwnNetwork
from ..tuning.preset_costs import preset_costs
from ..tuning.transformer_cost import NAMES, is_transformer, transformer_of
from .network import core_facts, has_byte_inputs, refusals, share_of
from .transformer import SENTENCES, TOKENS, with_head

_LAYERS, _TRANSFORMER = "network of layers", "transformer"


def run(model: OwnNetwork) -> dict[str, Any]:
    """Fit of a network on all presets of all cores.

    Returns
    -------
    dict
        ``network``, ``kind``, ``work`` (the work that the cycles are for), ``first`` (see `first_line`), ``cores`` and
        ``reasons``. A core has ``tunes``, ``cycles``, ``milliseconds``, ``parameter_bytes``, ``needs`` and ``lacks``,
        or a ``refusal``.

    Raises
    ------
    UserError
        If the model does not exist, or is neither a network of layers nor a transformer.
    """
    found, tokens = _network_of(model)
    if isinstance(found, Network):
        kind, work, name = _LAYERS, "a sample, forward", found.name
        cores = core_facts(found, has_byte_inputs(found))
    else:
        kind, name, tokens = _TRANSFORMER, model.model, tokens or TOKENS
        work = f"a step of {SENTENCES} samples of {tokens} tokens, both sides"
        cores = preset_costs(on_paper(found), (tokens,) * SENTENCES)
    return {
        "network": name,
        "kind": kind,
        "work": work,
        "first": first_line(cores),
        "cores": [_timed(core) for core in cores],
        "reasons": [*refusals(cores), *_other_kind(cores, kind)],
    }


def _network_of(model: OwnNetwork) -> tuple[Network | Transformer, int]:
    """Network of a model, and for a transformer the tokens of a sample (0: any number)."""
    if is_transformer(model.model):
        for name, value in (("--weights", model.weights), ("--input", model.shape)):
            if value is not None:
                raise UserError(f"{name} has no meaning with the transformer {model.model}: leave it out")
        network, _, tokens = transformer_of(model.model)
        return network, tokens
    model.refuse_word(NAMES)
    try:
        return model.built()[0], 0
    except UserError as refusal:
        transformer = own_transformer(model.model, model.shape, model.weights)
        if transformer is None:
            raise refusal
    whole = with_head(transformer.builder.network(), transformer.builder, transformer.last)
    return whole, len(transformer.places)


def _timed(core: dict[str, Any]) -> dict[str, Any]:
    """Facts of a preset, with the time of a sample at the default clock."""
    if core["refusal"]:
        return core
    return core | {"milliseconds": float(f"{core['cycles'] / (1e3 * DEFAULT_MHZ):.4g}")}


def _other_kind(cores: Sequence[dict[str, Any]], kind: str) -> Iterator[str]:
    """Line with the cores for the other kind of network."""
    if others := [name for name in CORES if name not in {core["core"] for core in cores}]:
        yield f"not on {', '.join(others)}: for a {_LAYERS if kind == _TRANSFORMER else _TRANSFORMER}"


def first_line(cores: Sequence[dict[str, Any]]) -> str:
    """Line with the presets of each core that run a network and fit on a board, and what each core tunes.

    ``cores`` are results of `network.core_facts` or `preset_costs`.
    """
    able: dict[tuple[str, str], list[str]] = {}
    for core in cores:
        if not core["refusal"] and len(core["lacks"]) < len(BOARDS):
            able.setdefault((core["core"], core["tunes"]), []).append(core["preset"])
    answers = [f"{name} {', '.join(presets)} ({tunes})" for (name, tunes), presets in able.items()]
    return f"which core: {'; '.join(answers) or 'none'}"


def show(result: dict[str, Any], table: Callable[..., None], line: Callable[[str], None]) -> None:
    """Print the result of `run`: the first line, a row for each preset, and the reasons against presets and boards."""
    line(result["first"])
    columns = ("core", "tunes", "cycles", f"ms at {DEFAULT_MHZ:g} MHz", "parameters in DRAM", "DSP", *BOARDS)
    table(columns, [*map(_row, result["cores"])], f"{result['network']}, a {result['kind']}")
    line(f"cycles: of {result['work']}; parameters in bytes; BRAM36, URAM: of the core, and their share of the board")
    for reason in result["reasons"]:
        line(reason)


def _row(core: dict[str, Any]) -> list[str]:
    name = f"{core['core']} {core['preset']}"
    if core["refusal"]:
        return [name, "refused, see below", *[""] * (4 + len(BOARDS))]
    dsp = next(iter(core["needs"].values()))["dsp"]
    figures = [f"{core['cycles']:,}", f"{core['milliseconds']:.3g}", f"{core['parameter_bytes']:,}", str(dsp)]
    return [name, core["tunes"], *figures, *(share_of(core, board) for board in BOARDS)]
