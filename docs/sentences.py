"""Long sentences of the pages: `python docs/sentences.py README.md docs` prints each and exits with 1 if there is one.

Only prose counts. Code, tables, headings, quotations, comments, images and indented blocks are left out. A list item
is a paragraph of its own, code in backticks is one word, and a link is its text.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LIMIT, SHOWN = 35, 8
"""Words of the longest sentence that is accepted; words of a longer one that are printed."""
HIDDEN = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
NO_PROSE = re.compile(r" {4}|\t|\s*(\||#|>|!\[|$)")
ITEM = re.compile(r"\s*([-*+]|\d+\.) ")
END = re.compile(r"(?<=[.!?;:])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)\s+(?=[A-Z0-9*\"(])")
"""Space between two sentences. No sentence begins with code, whose first letter may be small."""
WORD = re.compile(r"\w[\w'/.,%-]*")


def lines_of(found: re.Match[str]) -> str:
    """The line ends of a match, so that what follows keeps its line."""
    return "\n" * found[0].count("\n")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """First line, from 1, and text of each paragraph and list item."""
    lines: list[str] = []
    number = 0
    for number, line in enumerate(HIDDEN.sub(lines_of, text).splitlines(), 1):
        item = ITEM.match(line)
        if lines and (item or NO_PROSE.match(line)):
            yield number - len(lines), "\n".join(lines)
            lines = []
        if not NO_PROSE.match(line):
            lines.append(line[item.end() :] if item else line)
    if lines:
        yield number + 1 - len(lines), "\n".join(lines)


def sentences(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line and words of each sentence of a page."""
    for line, paragraph in paragraphs(text):
        prose = re.sub(r"`[^`]*`", lambda found: "code" + lines_of(found), paragraph)
        prose = re.sub(r"\[([^]]*)]\([^)]*\)", lambda found: found[1] + lines_of(found)[found[1].count("\n") :], prose)
        start = 0
        for end in [found.end() for found in END.finditer(prose)] + [len(prose)]:
            yield line + prose.count("\n", 0, start), WORD.findall(prose[start:end])
            start = end


def main() -> None:
    """Print the long sentences of the pages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, help="Markdown files, or folders of them")
    found = 0
    for page in parser.parse_args().pages:
        for file in sorted(page.rglob("*.md")) if page.is_dir() else [page]:
            for line, words in sentences(file.read_text(encoding="utf-8")):
                if len(words) > LIMIT:
                    found += 1
                    print(f"{file}:{line}: {len(words)} words: {' '.join(words[:SHOWN])} ...")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
