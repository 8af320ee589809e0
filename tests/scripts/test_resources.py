"""Full disks, read-only folders, little memory: one line, status 2, and no partial files."""

import os
import resource
import subprocess
import sys

import pytest

PROGRAM = "from fabtune.scripts.cli import main; main(prog_name='fabtune')"
RUNS = {
    "list": "list",
    "emit": "emit pezo -o out --force",
    "estimate": "estimate urng",
    "verify": "verify urng --words 20 --simulator {simulator} --waves w.vcd --force",
    "compiled": "tune --engine rtl --epochs 1 -o out.safetensors --force",
    "tune": "tune --epochs 1 -o out.safetensors --plot a.png --force",
    "zeroth": "tune --method pezo-otf --steps 3 -o out.safetensors --delta a.delta --force",
    "prove": "prove urng --rule load_taken",
    "mutate": "mutate urng --faults 1 --words 20 -o a.jsonl",
    "table": "table fedspzo --processes 2 --seeds 2",
    "demo": "demo -o out --force",
}
QUICK = ("list", "emit", "estimate", "verify", "prove")
OLD = dict.fromkeys(("w.vcd", "out.safetensors", "a.png", "a.delta"), b"old")


@pytest.fixture
def limited(tmp_path, tmp_path_factory, fast_simulator):
    """Run a command under system limits; it must end in one line and leave all files unchanged."""
    cache, scratch = (tmp_path_factory.mktemp(name) for name in ("cache", "scratch"))

    def run(name, limits=(), libraries=False, **environment):
        for file, data in OLD.items():
            (tmp_path / file).write_bytes(data)

        def begin():
            for limit, amount in limits:
                resource.setrlimit(limit, (amount, amount))

        own = {
            "FABTUNE_CACHE": str(cache),
            "TMPDIR": str(scratch),
            "OMP_NUM_THREADS": "1",
            "JOBLIB_MULTIPROCESSING": "0",
            # Python keeps truncated bytecode, and fails on it next time
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        line = RUNS[name].format(simulator=fast_simulator).split()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *line],
            cwd=tmp_path,
            env=os.environ | own | environment,
            preexec_fn=begin,
            capture_output=True,
            text=True,
            check=False,
        )
        files = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
        assert [path for path in scratch.iterdir() if "torchinductor" not in path.name] == []
        assert list(cache.rglob(".making-*")) == []
        # PyTorch and OpenBLAS abort if they cannot start, OpenBLAS with its own message and status 1
        gave_up = done.returncode < 0 or done.stderr.startswith("OpenBLAS error: Memory allocation")
        if libraries and gave_up:
            assert "Traceback" not in done.stderr
        elif done.returncode:
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith("fabtune: "), done.stderr
            assert done.stderr.count("\n") == 1, done.stderr
            assert {str(name): path.read_bytes() for name, path in files.items()} == OLD
        return done

    return run


@pytest.mark.parametrize(
    ("name", "size"),
    [
        (name, size) if size == 1000 and name in QUICK else pytest.param(name, size, marks=pytest.mark.slow)
        for name in RUNS
        for size in (0, 1000, 100_000)
    ],
)
def test_files_that_cannot_grow(limited, name, size):
    limited(name, [(resource.RLIMIT_FSIZE, size)])


@pytest.mark.parametrize("folder", ["/proc/none", pytest.param("/sys/none", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["verify", pytest.param("tune", marks=pytest.mark.slow), "estimate"])
def test_a_cache_that_cannot_be_written(limited, name, folder):
    done = limited(name, FABTUNE_CACHE=folder)
    assert done.returncode == 2
    assert folder in done.stderr


MEGABYTES = (60, 120, 200, 300, 500, 800, 1200, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("size", MEGABYTES)
@pytest.mark.parametrize("name", RUNS)
def test_memory_that_does_not_suffice(limited, name, size):
    limited(name, [(resource.RLIMIT_AS, size << 20)], libraries=True)


def test_little_memory(limited):
    assert "not enough memory" in limited("tune", [(resource.RLIMIT_AS, 300 << 20)]).stderr


def test_a_stack_of_exceptions_is_searched_for_a_lack_of_memory(fabtune, monkeypatch):
    def fail(*_):
        try:
            raise MemoryError
        except MemoryError:
            raise RuntimeError("out of luck") from None

    monkeypatch.setattr("fabtune.scripts.doctor.checks", fail)
    status, _, err = fabtune("doctor")
    assert status == 2
    assert err.startswith("fabtune: there is not enough memory")
