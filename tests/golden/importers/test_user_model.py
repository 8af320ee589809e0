"""Loading a user's model, and one-line refusals."""

import sys

import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.user_module import user_module

GOOD = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn
from mine_neighbour import WIDTH

@dataclass
class Sizes:
    hidden: ClassVar = WIDTH

def build():
    return nn.Sequential(nn.Linear(4, Sizes.hidden), nn.ReLU(), nn.Linear(Sizes.hidden, 2)).double()
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.py"


def test_a_users_function_gives_a_network(file, tmp_path):
    file.write_text(GOOD)
    (tmp_path / "mine_neighbour.py").write_text("WIDTH = 5\n")
    before = list(sys.path), sys.dont_write_bytecode
    module = user_module(f"{file}:build")
    assert isinstance(module, nn.Sequential)
    assert module[0].weight.shape == (5, 4)
    assert module[0].weight.dtype == torch.float32
    assert (sys.path, sys.dont_write_bytecode) == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine_neighbour.py", "model.py"]


def test_what_the_file_prints_is_no_output(file, capsys):
    file.write_text("from torch import nn\nprint('one')\ndef build():\n    print('two')\n    return nn.Linear(4, 2)\n")
    user_module(f"{file}:build")
    assert capsys.readouterr() == ("", "one\ntwo\n")


def test_a_changed_file_is_read_anew(file):
    for width in (3, 4):
        file.write_text(f"from torch import nn\ndef build(): return nn.Sequential(nn.Linear({width}, 2))\n")
        assert user_module(f"{file}:build")[0].in_features == width


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def build(:\n", "failed: SyntaxError: "),
        ("1 / 0\n", "failed in line 1: ZeroDivisionError: division by zero"),
        ("def build():\n    raise RuntimeError('two\\nlines')\n", "failed in line 2: RuntimeError: two lines"),
        ("import absent_package\n", "failed in line 1: ModuleNotFoundError: No module named 'absent_package'"),
        ("import sys\nsys.exit(0)\n", "failed in line 2: SystemExit: 0"),
        ("def build(x): pass\n", "failed: TypeError: build() missing 1 required positional argument: 'x'"),
        ("def other(): pass\n", "has no function build"),
        ("build = 3\n", "has no function build"),
        ("from torch import nn\nbuild = nn.Sequential(nn.Linear(2, 2))\n", "has no function build"),
        ("def build(): pass\n", "returned a builtins.NoneType, not a torch.nn.Module"),
        ("from torch import nn\ndef build(): return nn.Linear\n", "returned a builtins.type, not a torch.nn.Module"),
        ("from torch import nn\ndef build(): return nn.Sequential(nn.Linear(2, 2, device='meta'))\n", "failed"),
    ],
)
def test_each_mistake_is_one_line(file, text, message):
    file.write_text(text)
    before = list(sys.path)
    with pytest.raises(UserError) as mistake:
        user_module(f"{file}:build")
    said = str(mistake.value)
    assert said.startswith(f"{file}:build")
    assert message in said
    assert "\n" not in said
    assert sys.path == before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("model.py", "is not file.py:function"),
        ("model.py:", "is not file.py:function"),
        ("model.py:a.b", "is not file.py:function"),
        ("absent.py:build", "absent.py is not a file"),
        (":build", ". is not a file"),
    ],
)
def test_wrong_references_are_refused(reference, message):
    with pytest.raises(UserError) as mistake:
        user_module(reference)
    assert message in str(mistake.value)


def test_a_file_that_is_not_python_is_refused(tmp_path):
    (tmp_path / "model.txt").write_text("")
    with pytest.raises(UserError, match=r"model\.txt is not a Python file \(\.py\)"):
        user_module(f"{tmp_path / 'model.txt'}:build")
