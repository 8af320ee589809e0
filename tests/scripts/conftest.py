"""Commands, run as a user runs them."""

import pytest
from click.testing import CliRunner

from fabtune.scripts.cli import main


@pytest.fixture
def fabtune(tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def refused(fabtune, tmp_path):
    """Run a command that must be refused: one line on stderr, status 2, nothing written. The line."""

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
