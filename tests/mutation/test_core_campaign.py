"""Core campaigns: jobs and refusals detect the intended faults; known results are kept."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.errors import UserError
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw.verilog import emit
from fabtune.mutation import campaign
from fabtune.mutation import core_campaign as module
from fabtune.mutation.core_campaign import CoreCampaign, CoreSettings, Stage, Verdict
from fabtune.mutation.faults import CellFault, CellNetlist, list_faults, mutants, netlist
from fabtune.mutation.record import Result, scores_by_component
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.comparison import observable
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.instantft.trials import TuningVariation, short_tuning
from fabtune.sim.cores.zotrain import trials
from fabtune.sim.trials import exercise

from ..small_cores import zotrain

SPEC = zotrain()


def chosen(made: CellNetlist, count: int, seed: int, component: str) -> list[CellFault]:
    """Faults in arithmetic, in a limit, and in the address of an error."""
    found = list_faults(made, 10_000_000, seed, component)

    def first(file: str, **wanted: object) -> CellFault:
        own = (one for one in found if file in one.files)
        return next(one for one in own if all(getattr(one, name) == value for name, value in wanted.items()))

    # the writer has an equally named register, which the netlist numbers
    address = re.compile(r"trainer_memory_error_address(_\d+)?\[12\]")
    wire = next(one.wire for one in found if "hw/axi/axi_read.py" in one.files and address.fullmatch(one.wire))
    return [
        first("hw/nn/mac.py", kind="$mul", port="Y", bit=12, mode="inv"),
        first("hw/cores/zotrain/zotrain.py", kind="$gt", port="Y", mode="const0"),
        first("hw/axi/axi_read.py", kind="$sdffe", port="Q", mode="inv", wire=wire),
    ]


@pytest.mark.slow
def test_faults_of_a_core_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "list_faults", chosen)
    monkeypatch.setattr(exercise, "TRIALS", 12)
    monkeypatch.setattr(exercise, "RANDOM_JOBS", 2)
    monkeypatch.setattr(trials, "LONG", 100)
    told: list[Result] = []
    first = CoreCampaign(SPEC, CoreSettings(faults=3), tmp_path / "zotrain.jsonl")
    results = first.run(told.append)
    assert [one.status for one in results] == ["killed"] * 3
    assert [one.by for one in results] == ["job", "refusals", "order list"]
    assert sorted(one.number for one in told) == [0, 1, 2]
    parts = scores_by_component(results)
    assert list(parts) == ["hw/axi/axi_read.py", "hw/cores/zotrain/zotrain.py", "hw/nn/mac.py"]
    # known results are not recomputed
    again = CoreCampaign(SPEC, CoreSettings(faults=3), tmp_path / "zotrain.jsonl")
    monkeypatch.setattr(module, "build", None)
    assert [one.status for one in again.run()] == ["killed"] * 3
    with pytest.raises(UserError, match="another seed"):
        CoreCampaign(SPEC, CoreSettings(faults=3, seed=1), tmp_path / "zotrain.jsonl")


def test_all_faults_meet_a_stage_before_any_meets_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that pass all stages are undecided; no stage is prepared without open faults."""
    faults = [CellFault("inv", f"cell{at}", "$add", "Y", 0, -1, "", "", ()) for at in range(4)]
    decided: list[tuple[Verdict, tuple[int, ...]]] = [
        (("killed", "job", "wrong"), (1, 4)),
        (("equivalent", "proof", ""), (3,)),
        (("killed", "long job", "wrong"), ()),
    ]
    met: list[tuple[str, int]] = []

    def stages(own: CoreCampaign, design: object) -> Iterator[Stage]:
        for verdict, numbers in decided:

            def stage(mutant: int, verdict: Verdict = verdict, numbers: tuple[int, ...] = numbers) -> Verdict | None:
                met.append((verdict[1], mutant))
                return verdict if mutant in numbers else None

            yield stage

    monkeypatch.setattr(module, "netlist", lambda spec: CellNetlist(emit(PerturbSpec()), spec.name))
    monkeypatch.setattr(module, "mutants", lambda made, faults: None)
    monkeypatch.setattr(campaign, "list_faults", lambda *_: faults)
    monkeypatch.setattr(CoreCampaign, "_stages", stages)
    results = CoreCampaign(SPEC, CoreSettings(), tmp_path / "zotrain.jsonl").run()
    assert [one.status for one in results] == ["killed", "undecided", "equivalent", "killed"]
    assert [one.by for one in results] == ["job", "", "proof", "job"]
    assert sorted(met[:4]) == [("job", number) for number in (1, 2, 3, 4)]
    assert sorted(met[4:6]) == [("proof", 2), ("proof", 3)]
    assert met[6:] == [("long job", 2)]
    decided[1] = ("equivalent", "proof", ""), (2, 3)
    met.clear()
    CoreCampaign(SPEC, CoreSettings(), tmp_path / "again.jsonl").run()
    assert {what for what, _ in met} == {"job", "proof"}


def test_a_record_depends_on_all_that_sees_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled simulator, the stress tests of all cores, and the core's own package."""
    folders: list[Path] = []
    monkeypatch.setattr(module, "netlist", lambda spec: CellNetlist(emit(PerturbSpec()), spec.name))
    monkeypatch.setattr(module, "source_digest", lambda folder: folders.append(folder) or "")
    CoreCampaign(SPEC, CoreSettings(), tmp_path / "zotrain.jsonl")
    sim = Path(module.__file__).parents[1] / "sim"
    assert folders == [sim / "compiled", sim / "trials", sim / "cores/zotrain"]
    assert all(folder.is_dir() for folder in folders)


def test_no_record_that_is_written_alone_is_held_back() -> None:
    """In the campaign's core a batch never waits for four records: see docs/measurements/equivalent_mutants.json.

    The write FIFO is empty once a batch's records are settled. Until the next record is complete it receives only this
    record, and the logits of three batches: its own, the previous one, and the rest of a third.
    """
    network = "1x6x6 conv16k3p1 relu pool2 conv8k2 relu flatten fc28 relu fc10"
    spec = InstantftSpec(network=network, lanes=16, batch=4, cache_entries=64)
    record = max(spec.mapping.raw_beats, spec.mapping.record_beats)
    assert 3 * spec.batch * spec.mapping.logit_beats + record <= AxiWriteSpec().depth


@pytest.mark.slow
def test_a_batch_waits_for_four_records() -> None:
    """With short blocks at a record's end, four samples enter before the first is recorded."""
    network = "1x6x6 conv16k3p1 relu pool2 conv16k2 relu flatten fc10"
    spec = observable(InstantftSpec(network=network, lanes=16, batch=4, cache_entries=64))
    made = netlist(spec)
    found = list_faults(made, 1_000_000, 0, "hw/lora/job/batch_scheduler.py")
    wanted = {"kind": "$sub", "port": "Y", "bit": 2, "mode": "const0"}
    faults = [one for one in found if all(getattr(one, name) == value for name, value in wanted.items())]
    program = build(mutants(made, faults).verilog, spec.name, spec.memory_ports, faults=True)
    job = short_tuning(spec, 1, TuningVariation(samples=12, epochs=1))

    def wrong(mutant: int) -> list[str]:
        device = SimulatedDevice(program, Dram(latency=1, jitter=0, duty=1.0), mutant=mutant)
        driver = job.driver(device)
        job.load(driver)
        return job.differences(driver, device)

    assert len(faults) == 1
    assert wrong(0) == []
    assert "adapters of a batch" in wrong(1)
