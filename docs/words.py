"""Words of the pages, and place-holders in pages, docstrings and comments: `python docs/words.py` prints the counts.

A place-holder stands for a noun that the reader has to find elsewhere. The exit status is 1 where a limit is exceeded.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE_HOLDERS = frozenset(["that", "those", "what", "one", "ones", "it", "its", "such", "there", "which", "whose"])
PAGE_WORDS = {"docs/blocks/cores/": 1600, "docs/blocks/index.md": 1600, "docs/blocks/": 700, "": 2000}
"""Most words of a page, code and tables included, by the first prefix that its path has."""
PAGES_RATE = 20
"""Most place-holders in 1,000 words of the pages' prose."""
ROOM_RATES = dict.fromkeys(("golden", "hw", "sim", "boards", "mutation", "scripts"), 28)
"""Most place-holders in 1,000 words of a package's docstrings and comments."""


def pages(root: Path) -> list[Path]:
    """Pages written by hand: README, CONTRIBUTING and docs."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def page_prose(text: str) -> Iterator[str]:
    """Lines outside code, tables and headings; code in backticks is one word, links are their text."""
    code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.startswith(("    ", "|", "#")):
            yield re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "x", line))


def code_prose(source: str) -> Iterator[str]:
    """Docstrings and comment lines of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    yield from (line.strip() for line in source.splitlines() if line.lstrip().startswith("# "))


def rate(texts: Iterable[str]) -> float:
    """Place-holders in 1,000 words."""
    words = [word for text in texts for word in re.findall(r"[a-z]+", text.lower())]
    return 1000 * sum(word in PLACE_HOLDERS for word in words) / max(len(words), 1)


def long_pages(root: Path) -> Iterator[str]:
    """A line for each page above its limit of words."""
    for page in pages(root):
        name, words = page.relative_to(root).as_posix(), len(page.read_text(encoding="utf-8").split())
        limit = next(most for prefix, most in PAGE_WORDS.items() if name.startswith(prefix))
        if words > limit:
            yield f"{name}: {words} words, at most {limit}"


def rates(root: Path) -> Iterator[tuple[str, float, float]]:
    """Name, place-holders in 1,000 words and limit of the pages and of each package."""
    prose = (line for page in pages(root) for line in page_prose(page.read_text(encoding="utf-8")))
    yield "pages", rate(prose), PAGES_RATE
    for room, limit in ROOM_RATES.items():
        sources = (path.read_text(encoding="utf-8") for path in sorted((root / room).rglob("*.py")))
        yield room, rate(text for source in sources for text in code_prose(source)), limit


def main() -> None:
    """Print counts and excesses."""
    excesses = list(long_pages(ROOT))
    for name, reached, limit in rates(ROOT):
        print(f"{name:10s} {reached:5.1f} place-holders in 1,000 words, at most {limit}")
        if reached > limit:
            excesses.append(f"{name}: too many place-holders: say the noun")
    print("\n".join(excesses))
    sys.exit(bool(excesses))


if __name__ == "__main__":
    main()
