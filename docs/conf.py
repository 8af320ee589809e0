"""Sphinx settings of the site that `make docs` builds from the pages, README and docstrings.

The source folder is the root of the project, so that links mean the same here as on a forge.
"""

import importlib.metadata
import inspect
import json
import re
from pathlib import Path

import wavedrom
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from fabtune.golden.description import tables
from fabtune.golden.registry import BLOCKS

ROOT = Path(__file__).resolve().parents[1]
FINE_TUNING = (
    "networks",
    "adapters",
    "nf4",
    "zo",
    "zo-job",
    "delta",
    "results",
    "sparse",
    "transformers",
    "stream",
    "federated",
)

project = "fabtune"
author = "the fabtune authors"
version = release = importlib.metadata.version("fabtune")

API = tags.has("api")  # noqa: F821 - of Sphinx
"""Whether the Python reference is built, too: it takes minutes, the pages seconds."""

extensions = ["myst_parser"]
if API:
    extensions += [f"sphinx.ext.{name}" for name in ("autodoc", "autosummary", "napoleon", "viewcode")]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "docs/**.rst"]
# whole folders without pages: Sphinx walks all others, .venv and the links in build for minutes
PAGES = ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
exclude_patterns = [path.name for path in ROOT.iterdir() if path.name not in PAGES]
exclude_patterns += ["docs/_templates", *([] if API else ["docs/api.md", "docs/api/**"])]
# absolute: autosummary counts from the source folder, the rest from this one
templates_path = [str(ROOT / "docs" / "_templates")]

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["flwr", "transformers"]  # optional extras, which only some commands import
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a component's ports as one list
default_role = "code"  # single backticks in docstrings are code, as in Markdown
suppress_warnings = ["ref.python"]  # a bare name in a type that several modules have

html_theme = "furo"
html_title = f"fabtune {release}"
html_additional_pages = {"index": "index.html"}
html_css_files = ["site.css"]
html_static_path = ["_static"]
html_show_copyright = False


def toctree(caption: str, *pages: str) -> str:
    """A part of the navigation, in Markdown; pages that are not written yet are left out."""
    there = [page for page in pages if "*" in page or (ROOT / f"{page.lstrip('/')}.md").exists()]
    return "\n".join(["", "```{toctree}", ":hidden:", ":glob:", f":caption: {caption}", *there, "```", ""])


EXAMPLES = sorted(path.name for path in (ROOT / "docs" / "examples").glob("*.py"))
ONLY_HERE = {
    root_doc: toctree(
        "Start",
        "docs/your-network",
        "docs/your-language-model",
        "docs/papers",
        "docs/commands",
        "docs/architecture",
        "docs/mapping",
        "docs/examples/index",
        "docs/adding-a-block",
        "docs/composing-a-core",
        "docs/references",
        "CONTRIBUTING",
        "CHANGELOG",
    )
    + toctree("Fine-tuning", *(f"docs/{name}" for name in FINE_TUNING))
    + toctree(
        "Hardware",
        "docs/blocks/index",
        "docs/memory-images",
        "docs/verilog",
        "docs/boards",
        "docs/own-test-bench",
        "docs/golden-core",
        "docs/estimate",
        "docs/activity",
        "docs/sweep",
        "docs/captures",
    )
    + toctree(
        "Verification",
        "docs/verification",
        "docs/proofs",
        "docs/mutation",
    )
    + (toctree("Reference", "docs/api") if API else ""),
    "docs/blocks/index": toctree("Blocks", "/docs/blocks/*/*"),
    "docs/examples/index": "".join(
        f"\n## {name}\n\n```{{literalinclude}} {name}\n:language: python\n```\n" for name in EXAMPLES
    ),
}
"""What the site adds to a page, by its name; a forge would show these directives as code."""


class Wavedrom(Directive):
    """A timing diagram in WaveJSON, drawn as SVG on a light background."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw the fence's content."""
        drawing = wavedrom.render("\n".join(self.content)).tostring()
        return [nodes.raw("", f'<div class="wavedrom">{drawing}</div>', format="html")]


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    cells = [" | ".join(cell.strip().replace("|", "\\|") for cell in row) for row in rows]
    heading = [" | ".join(columns), "|".join("---" for _ in columns)]
    return "".join(f"| {row} |\n" for row in heading + cells)


def block_tables(name: str) -> str:
    """Describe a block by the tables that `fabtune list` prints, in Markdown."""
    parts = (markdown_table(list(columns), list(rows)) for columns, rows in tables(BLOCKS[name]()))
    return "\n## Parameters, ports and registers\n" + "".join(f"\n{table}" for table in parts)


MEASUREMENT = re.compile(r"^```\{measurement\} ([\w-]+)\n```$", re.MULTILINE)
"""A fence that stands for the table in `docs/measurements/NAME.json`."""


def measurement(path: Path) -> str:
    """Markdown of a measurement: title, command and commit, then the table."""
    data = json.loads(path.read_text(encoding="utf-8"))
    origin = [f"`{data['command']}`"] if data["command"] else []
    origin += [f"commit {data['commit']}"] if data["commit"] else []
    caption = f"**{data['title']}**" + (f" ({', '.join(origin)})" if origin else "")
    rows = [["" if cell is None else str(cell) for cell in row] for row in data["rows"]]
    return f"{caption}\n\n{markdown_table(data['columns'], rows)}"


def complete(app: Sphinx, docname: str, source: list[str]) -> None:
    """Insert measurements and append the parts that only the site has."""
    for name in set(MEASUREMENT.findall(source[0])):
        app.env.note_dependency(str(ROOT / "docs" / "measurements" / f"{name}.json"), docname=docname)
    source[0] = MEASUREMENT.sub(lambda fence: measurement(ROOT / "docs/measurements" / f"{fence[1]}.json"), source[0])
    source[0] += ONLY_HERE.get(docname, "")
    name = docname.rpartition("/")[2]
    if docname.startswith("docs/blocks/") and name in BLOCKS:
        source[0] += block_tables(name)


def prepare_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep two things from being read as markup: the star of a shape such as (n, *input_shape), a property's colon."""
    lines[:] = [re.sub(r"([(,]\s*)\*([\w.]+)(?=[),])", r"\1\\*\2", line) for line in lines]
    if what in ("property", "attribute", "data"):
        lines.insert(0, "")  # napoleon takes what stands before a colon in the first line for a type


def constructor(app: Sphinx, what: str, name: str, obj: object, options: object, *found: str) -> tuple[str, str] | None:
    """Show the arguments of a component's own constructor; what Python reports is that of Amaranth's metaclass."""
    if what != "class" or "src_loc_at" not in (found[0] or ""):
        return None
    arguments = [
        one.replace(
            annotation=one.empty,
            default=one.default if one.default is one.empty or "<" not in repr(one.default) else ...,
        )
        for one in list(inspect.signature(obj.__init__).parameters.values())[1:]
    ]
    return str(inspect.Signature(arguments)), found[1]


def collapse(app: Sphinx, page: str, template: str, context: dict[str, object], doctree: nodes.document | None) -> None:
    """Unfold only the own branch of the navigation: else each of the reference's pages is a copy of the whole tree."""
    whole = context.get("toctree")
    if callable(whole):
        context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


def setup(app: Sphinx) -> None:
    """Register the directive and the hooks."""
    app.add_directive("wavedrom", Wavedrom)
    app.connect("source-read", complete)
    if API:
        app.connect("autodoc-process-docstring", prepare_docstring, priority=400)  # before napoleon
        app.connect("autodoc-process-signature", constructor)
        app.connect("html-page-context", collapse, priority=400)  # before the theme asks for the navigation
