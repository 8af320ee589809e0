"""Commands, run as a user runs them."""

import pytest
from click.testing import CliRunner

from fabtune.golden.train.text.tasks import SEEDS
from fabtune.scripts.cli import main


@pytest.fixture
def fabtune(tmp_path, monkeypatch):
    """Run a command in an empty folder; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def refused(fabtune, tmp_path):
    """Run a command that must be refused: status 2, nothing written, one line on stderr, which is returned."""

    def run(command):
        before = sorted(tmp_path.iterdir())
        status, out, err = fabtune(*command.split())
        assert status == 2
        assert out == ""
        assert err.startswith("fabtune: ")
        assert err.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before
        return err

    return run


@pytest.fixture
def sentences(fabtune, tmp_path):
    """A user's text task, plain and as SST-2 in the layout of the tables' data."""
    words = [("bad", "poor"), ("good", "fine")]
    rows = [(at % 2, f"the film was {words[at % 2][at // 2 % 2]}" + " , a plot" * (at % 3)) for at in range(40)]
    (tmp_path / "prompts.txt").write_text("it was bad\nit was good\n")
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_text("".join(f'{label},"{text}"\n' for label, text in rows))
    text = tmp_path / "data" / "text"
    for seed in SEEDS:
        folder = text / "lmbff-kshot" / "SST-2" / f"16-{seed}"
        folder.mkdir(parents=True)
        for part in ("train", "test"):
            lines = "".join(f"{text}\t{label}\n" for label, text in rows)
            (folder / f"{part}.tsv").write_text(f"sentence\tlabel\n{lines}")
    (text / "tinyshakespeare").mkdir()
    passages = "\n\n".join(" ".join(["the film was good , the cast was very fine"] * (1 + at % 4)) for at in range(99))
    (text / "tinyshakespeare" / "input.txt").write_text(passages)
