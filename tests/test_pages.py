"""Pages: code runs, command lines exist, drawings and timing diagrams are correct, examples run."""

import importlib.util
import itertools
import json
import re
import runpy
import shlex
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import pytest
from amaranth.hdl import Fragment
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.top import TopWrapper
from fabtune.hw.verilog import component
from fabtune.scripts.cli import SECTIONS, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
CODE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n\n)?"
    r"(?:^```python\n(?P<fence>.*?)^```$|^    python - <<'END'\n(?P<script>.*?)^    END$)",
    re.MULTILINE | re.DOTALL,
)
"""Python in a fence or an indented interpreter session; a comment above states why code is not run."""


def page_id(page):
    return str(page.relative_to(ROOT))


def page_code():
    """Code of the pages: the fences of a page in sequence, and each script separately."""
    for page in PAGES:
        if page.name == "adding-a-block.md":  # test_docs builds and verifies this page
            continue
        fences = []
        for number, found in enumerate(CODE.finditer(page.read_text())):
            source = found["fence"] or textwrap.dedent(found["script"])
            marks = [pytest.mark.skip(reason=found["reason"])] if found["reason"] else []
            if found["fence"] and not found["reason"]:
                fences.append(source)
            else:
                yield pytest.param(source, id=f"{page_id(page)}-{number}", marks=marks)
        if fences:
            yield pytest.param("\n".join(fences), id=f"{page_id(page)}-fences")


@pytest.mark.parametrize("source", list(page_code()))
def test_code_of_the_pages_runs(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(source, "<page>", "exec"), {"__name__": "__main__"})


def test_code_is_found_with_its_mark():
    text = "<!-- not run: needs data -->\n\n    python - <<'END'\n    1 / 0\n    END\n\n```python\nx = 1\n```\n"
    found = [(match["reason"], match["fence"], match["script"]) for match in CODE.finditer(text)]
    assert found == [("needs data", None, "    1 / 0\n"), (None, "x = 1\n", None)]


def command_lines(page):
    """Lines starting with `fabtune`, indented or inline code, except synopses with brackets."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^    (?:\.venv/bin/)?fabtune (.*)$", text, re.MULTILINE)
    lines += re.findall(r"`fabtune ([a-z][^`\n]* [^`\n]*)`", text)
    return [line for line in lines if not re.search(r"\[| \| |<[a-z]|\.\.\.", line.partition("#")[0])]


def parse(line):
    """Parse a command line without running it.

    Raises
    ------
    click.UsageError
        If the command or an option does not exist, or lacks its value.
    """
    command, words = main, shlex.split(line, comments=True)
    context = click.Context(main, info_name="fabtune")
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        context = click.Context(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(list(words))


@pytest.mark.parametrize("page", [page for page in PAGES if command_lines(page)], ids=page_id)
def test_command_lines_exist(page):
    for line in command_lines(page):
        try:
            parse(line)
        except click.UsageError as error:
            pytest.fail(f"fabtune {line}: {error.format_message()}")


@pytest.mark.parametrize("line", ["tun --plot x", "tune --plott x", "tune --plot"])
def test_a_wrong_command_line_is_seen(line):
    with pytest.raises(click.UsageError):
        parse(line)


def test_the_page_of_commands_shows_each_in_its_section():
    """Sections and order of ``fabtune --help``."""
    _, *sections = re.split(r"^## (.+)\n", (DOCS / "commands.md").read_text(), flags=re.MULTILINE)
    shown = {
        title: tuple(dict.fromkeys(re.findall(r"^\| `fabtune ([a-z]+)", text, re.MULTILINE)))
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }
    assert list(shown.items()) == list(SECTIONS.items())


def test_readme_shows_commands_that_the_page_of_commands_has():
    shown = {line.split()[0] for line in command_lines(ROOT / "README.md")}
    assert shown == {"which", "import", "tune", "package", "export", "delta", "federate", "cost"}
    assert "](docs/commands.md)" in (ROOT / "README.md").read_text()


MEASUREMENT = re.compile(r"^```\{measurement\} ([\w-]+)\n```$", re.MULTILINE)
"""A fence that the site replaces by the table in `docs/measurements/NAME.json`."""
MEASUREMENTS = DOCS / "measurements"


def measurement_faults(data):
    """Errors in a measurement's form."""
    faults = [] if list(data) == ["title", "command", "commit", "columns", "rows"] else [f"keys {list(data)}"]
    faults += [key for key in ("title", "command", "commit") if not isinstance(data.get(key), str)]
    if not re.fullmatch(r"([0-9a-f]{7,40})?", str(data.get("commit"))):
        faults.append(f"commit {data.get('commit')}")
    columns, rows = data.get("columns") or [], data.get("rows") or []
    if not data.get("title") or not columns or not rows or not all(isinstance(name, str) for name in columns):
        faults.append("empty title, columns or rows")
    for number, row in enumerate(rows):
        if len(row) != len(columns) or not all(cell is None or type(cell) in (str, int, float) for cell in row):
            faults.append(f"row {number}")
    return faults


def test_measurements_have_one_form():
    for path in sorted(MEASUREMENTS.glob("*")):
        assert re.fullmatch(r"[\w-]+\.json", path.name), path.name
        data = json.loads(path.read_text())
        assert measurement_faults(data) == [], path.name
        if data["command"].startswith("fabtune "):
            parse(data["command"].removeprefix("fabtune "))


def test_a_malformed_measurement_is_seen():
    good = {"title": "t", "command": "", "commit": "", "columns": ["a", "b"], "rows": [["x", 1.5], [None, 2]]}
    assert measurement_faults(good) == []
    assert measurement_faults(good | {"rows": [["x"], [[], 1]]}) == ["row 0", "row 1"]
    assert measurement_faults(good | {"commit": "main"}) == ["commit main"]
    assert measurement_faults({"title": ""})


def test_each_measurement_is_shown_and_linked():
    shown = set()
    for page in PAGES:
        text = page.read_text()
        for name in MEASUREMENT.findall(text):
            assert re.search(rf"\]\([./\w]*measurements/{name}\.json\)", text), (
                f"{page_id(page)}: no link to {name}.json"
            )
            shown.add(name)
        assert text.count("```{measurement}") == len(MEASUREMENT.findall(text)), f"{page_id(page)}: a malformed fence"
    assert shown == {path.stem for path in MEASUREMENTS.glob("*.json")}


def docs_script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STATISTICS = docs_script("generator_statistics").MEASUREMENTS
LONG_STATISTICS = ("urng-quality", "grng-quality", "gaussian_array-quality")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG_STATISTICS else []) for name in STATISTICS],
)
def test_statistics_of_generators_are_current(name):
    rows = json.loads((MEASUREMENTS / f"{name}.json").read_text())["rows"]
    assert list(STATISTICS[name]()) == rows, f"run python docs/generator_statistics.py {name}"


def drawings():
    return docs_script("diagrams").DRAWINGS


def test_drawings_are_what_their_script_draws():
    drawn = drawings()
    assert {path.name for path in (DOCS / "images").iterdir()} == set(drawn)
    for name, draw in drawn.items():
        assert (DOCS / "images" / name).read_bytes() == draw().encode(), f"run python docs/diagrams.py: {name} is old"
        ElementTree.fromstring(draw())


def timing_diagrams():
    for page in sorted((DOCS / "blocks").rglob("*.md")):
        for fence in re.findall(r"^```\{wavedrom\}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            yield pytest.param(page, fence, id=page.stem)


def check_lanes(lanes, wrapper):
    """Check that a diagram is valid WaveDrom of a block's ports."""
    assert {lane["name"] for lane in lanes} <= {*wrapper.signature.members, "cycle"}
    assert len({len(lane["wave"]) for lane in lanes}) == 1, "lanes of different lengths"
    for lane in lanes:
        assert re.fullmatch(r"[p01x=][p.01x=|]*", lane["wave"])
        assert lane["wave"].count("=") == len(lane.get("data", "").split()), lane["name"]
        for level, group in itertools.groupby(lane["wave"].replace(".", "").replace("|", "")):
            assert level == "=" or len(list(group)) == 1, f"{lane['name']}: {level} is repeated, take a dot"


def test_every_block_with_streams_has_a_timing_diagram():
    drawn = {parameter.values[0].stem for parameter in timing_diagrams()}
    assert drawn >= {name for name, spec in BLOCKS.items() if not spec().core or name in ("pezo", "tile")}


def test_the_index_has_every_block():
    index = (DOCS / "blocks" / "index.md").read_text()
    for name, spec in BLOCKS.items():
        assert f"]({spec.area()}/{name}.md)" in index


LONG_EXAMPLES = ("own_network",)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG_EXAMPLES else [])
        for path in sorted((DOCS / "examples").glob("*.py"))
    ],
    ids=lambda path: path.stem,
)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert f"]({example.name})" in (DOCS / "examples" / "index.md").read_text()


LOAD_FC = 26
"""Load cycles of a layer with 5 inputs and 3 outputs: bound by clearing the activation memory."""
LOAD_CONV = 42
"""Load cycles of a convolution with three outputs on 16 lanes x 2 columns, with the same bound."""
LOAD_DEPTHWISE = 65
"""Load beats of two 2 x 2 filters on 16 lanes x 8 columns: four words of 16, and the biases."""
LOAD_ADAPTER = 18
"""Load beats of one adapter from 20 inputs to two classes: A as 32 lanes x 4 columns of 8, B one for each class."""
SIMULATED = {
    "urng": {},
    "scale": {},
    "pool": {},
    "grng": {},
    "gaussian_array": {"gaps": [542, 542]},
    "pezo": {"gaps": [254, 254]},
    "perturb": {},
    "tile": {"preset": "pool"},
    "sparse_add": {
        "settings": ["lanes=8"],
        "before": [
            {"sparse_valid": 1, "sparse_index": 8},
            {"sparse_valid": 1, "sparse_index": 10, "sparse_last": 1},
            {},
            {},
        ],
    },
    "nf4_quant": {"settings": ["length=4"], "gaps": [21, 2, 3], "packet": 4},
    "weight_path": {"undrawn": {"codes_sign": 1}},
    "nf4_dequant": {},
    "mac": {"settings": ["lanes=2"]},
    "tile_array": {
        "settings": ["lanes=8", "columns=1"],
        "before": [
            *[{"w_valid": 1}] * 4,
            {"w_valid": 1, "x_valid": 1, "x_swap": 1},
            *[{"w_valid": 1}] * 4,
        ],
    },
    "partial_sums": {"settings": ["columns=8", "sums=4"]},
    "stationary_load": {"settings": ["lanes=8", "columns=4"]},
    "array_path": {
        "settings": ["lanes=6", "columns=1", "sums=4", "drain=1", "queries=2"],
        "undrawn": {"order_rows": 1, "order_used": 6, "rows_first": 1, "rows_last": 1},
        "gaps": [9],
    },
    "linear_sequencer": {
        "settings": ["lanes=8", "columns=4", "sums=4"],
        "undrawn": {"operation_inputs": 13, "operation_outputs": 4, "operation_rows": 2, "operation_stride": 4},
    },
    "norm_path": {
        "settings": ["lanes=8", "columns=8", "norm_lanes=4", "features=8", "sums=4"],
        "undrawn": {"operation_features": 8, "operation_rows": 1, "operation_stride": 4},
        "gaps": [59],
    },
    "attention_sequencer": {
        "settings": ["lanes=8", "columns=4", "queries=2", "keys=8", "rows=64", "wide_rows=2", "sums=4"],
        "undrawn": {
            "operation_heads": 1,
            "operation_key_heads": 1,
            "operation_width": 4,
            "operation_sentences": 1,
            "sentences_length": 1,
            "inverse_last": 1,
            "contexts_tag": 1 << 7,
        },
        "gaps": [14],
    },
    "adapter": {
        "settings": ["inputs=20", "classes=2", "batch=2"],
        "before": [{"load_valid": 1}] * LOAD_ADAPTER + [{}] * 6,
        "gaps": [27, 9, 41, 13, 15],
    },
    "conv": {
        "settings": [
            "channels=1",
            "height=4",
            "width=4",
            "kernel=3",
            "padding=0",
            "outputs=3",
            "lanes=16",
            "columns=2",
        ],
        "before": [{"load_valid": 1}] * LOAD_CONV,
        "gaps": [47],
    },
    "depthwise": {
        "settings": [
            "channels=2",
            "height=2",
            "width=2",
            "kernel=2",
            "padding=0",
            "lanes=16",
            "columns=8",
        ],
        "before": [{"load_valid": 1}] * LOAD_DEPTHWISE,
        "gaps": [32],
    },
    "fc": {"settings": ["inputs=5", "outputs=3"], "before": [{"load_valid": 1}] * LOAD_FC, "gaps": [26]},
    "softmax": {"settings": ["classes=2"], "gaps": [8]},
    "celoss": {},
    "loss_difference": {"settings": ["classes=2"], "gaps": [9, 9, 10, 7]},
    "mseloss": {},
    "mse_difference": {"settings": ["outputs=2"], "gaps": [4]},
    "coefficient": {"gaps": [18]},
    "word_offsets": {"undrawn": {"command_kind": 5, "command_count": 1}, "gaps": [31, 42]},
    "axi_read": {"undrawn": {"s_axis_command_tdata": 1 << 32}},
    "axi_write": {"before": [{"s_axis_command_tvalid": 1, "s_axis_command_tdata": 2 << 32}, {}, {}]},
    "axi_registers": {"undrawn": {"s_axi_control_wstrb": 0xF}},
}
"""Replayed diagrams: parameters of the block, inputs outside the diagram, cycles before its start, and cycles skipped
by each broken line, with inputs held. `packet` sets `i_last` on every n-th transfer of `i`.
"""


def replay(wrapper, lanes, undrawn=(), before=(), gaps=(), packet=0):
    """Drive a block with a diagram's inputs; returns differences from the drawn outputs."""
    levels = {lane["name"]: lane["wave"] for lane in lanes if lane["name"] != "cycle" and "p" not in lane["wave"]}
    inputs = {name for name, member in wrapper.signature.members.items() if member.flow is In} - {wrapper.clock}
    drawn_inputs, outputs = inputs & set(levels), set(levels) - inputs
    idle = {name: int(name.endswith("ready")) for name in inputs} | {wrapper.reset: 1 - wrapper.reset_level}
    gaps, wrong, transfers = iter(gaps), [], 0

    async def bench(context):
        async def cycle(values, expected, where):
            nonlocal transfers
            for name, value in values.items():
                context.set(getattr(wrapper, name), value)
            await context.delay(1e-6)
            for name, level in expected.items():
                got = context.get(getattr(wrapper, name))
                if level in "01" and got != int(level):
                    wrong.append(f"cell {where}: {name} is {got}, drawn {level}")
            if packet:
                transfers += context.get(wrapper.i_valid) & context.get(wrapper.i_ready)
            context.set(getattr(wrapper, wrapper.clock), 1)
            await context.delay(1e-6)
            context.set(getattr(wrapper, wrapper.clock), 0)

        for values in before:
            await cycle(idle | values, {}, "before")
        now = {}
        for cell in range(len(lanes[0]["wave"])):
            drawn = {name: wave[cell] for name, wave in levels.items()}
            now |= {name: level for name, level in drawn.items() if level not in ".|"}
            values = idle | dict(undrawn) | {name: int(now[name] == "1") for name in drawn_inputs}
            if "|" in drawn.values():
                for _ in range(next(gaps)):
                    last = {"i_last": int(transfers % packet == packet - 1)} if packet else {}
                    await cycle(values | last, {}, cell)
            else:
                await cycle(values, {name: now[name] for name in outputs}, cell)

    simulator = Simulator(wrapper)
    simulator.add_testbench(bench)
    simulator.run()
    return wrong


def replayed(page, fence):
    """Differences between a page's diagram and its block."""
    how = dict(SIMULATED[page.stem])
    spec = build(BLOCKS[page.stem], how.pop("settings", ()), how.pop("preset", None))
    lanes, wrapper = json.loads(fence)["signal"], TopWrapper(component(spec), spec)
    check_lanes(lanes, wrapper)
    return replay(wrapper, lanes, **how)


@pytest.mark.parametrize(("page", "fence"), [one for one in timing_diagrams() if one.id not in SIMULATED])
def test_timing_diagrams_show_ports_of_the_block(page, fence):
    """For diagrams that are not replayed."""
    spec = BLOCKS[page.stem]()
    wrapper = TopWrapper(component(spec), spec)
    Fragment.get(wrapper, None)  # avoids Amaranth's warning about an unelaborated component
    check_lanes(json.loads(fence)["signal"], wrapper)


@pytest.mark.parametrize(("page", "fence"), [one for one in timing_diagrams() if one.id in SIMULATED])
def test_timing_diagrams_are_what_the_block_does(page, fence):
    assert replayed(page, fence) == []


def test_a_wrong_timing_diagram_is_seen():
    page, fence = next(one.values for one in timing_diagrams() if one.id == "nf4_dequant")
    late = fence.replace('"o_valid", "wave": "0...1...."', '"o_valid", "wave": "0....1..."')
    assert late != fence
    assert replayed(page, late) == ["cell 4: o_valid is 1, drawn 0"]
