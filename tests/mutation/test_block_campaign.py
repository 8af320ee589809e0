"""Block campaigns: a fault is killed, equivalent or survives; known results are not recomputed."""

import json

import pytest
from amaranth.hdl import Mux, Signal

from fabtune.golden.errors import UserError
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.hw.zo.perturb import Perturb
from fabtune.mutation import block_campaign as module
from fabtune.mutation import campaign as campaign_module
from fabtune.mutation import faults as faults_module
from fabtune.mutation.block_campaign import BlockCampaign, BlockSettings
from fabtune.mutation.faults import list_faults
from fabtune.mutation.record import score_of, scores_by_component

SPEC = PerturbSpec()


class Redundant(Perturb):
    """The block, with an additional counter that never reaches the value that would change a word."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        count = Signal(2)
        m.d.sync += count.eq(Mux(count == 2, 0, count + 1))
        with m.If(count == 3):
            m.d.comb += self.o.payload.weight.eq(1)
        return m


def chosen(made, count, seed, component):
    """One fault of each outcome: at the output, in the redundant register, in the saturation."""
    found = list_faults(made, 100_000, seed)
    killed = next(one for one in found if one.wire == "o_valid[0]" and one.port == "Q" and one.mode == "const0")
    # always reset, the counter stays at 0; source lines of this file are not recorded
    hidden = next(one for one in found if not one.source and one.port == "SRST" and one.mode == "const1")
    upper = next(one for one in found if one.kind == "$reduce_or" and one.port == "Y" and one.mode == "const0")
    return [killed, hidden, upper][:count]


@pytest.fixture
def settings(fast_simulator, monkeypatch):
    monkeypatch.setattr(faults_module, "component", Redundant)
    monkeypatch.setattr(campaign_module, "list_faults", chosen)
    return BlockSettings(faults=3, words=2, simulator=fast_simulator)


def test_each_fault_has_its_fate_and_is_judged_once(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LONGER", 1)
    path = tmp_path / "deep" / "perturb.jsonl"
    results = BlockCampaign(SPEC, settings, path).run()
    assert [one.status for one in results] == ["killed", "equivalent", "survived"]
    assert results[0].by == "objection"
    assert "nothing moved" in results[0].detail
    assert results[2].cycles > 0
    parts = scores_by_component(results)
    rounding, perturb = parts["hw/primitives/rounding.py"], parts["hw/zo/perturb.py"]
    assert len(parts) == 2
    assert (perturb.killed, perturb.survived, rounding.killed, rounding.survived) == (1, 0, 0, 1)
    score = score_of(results)
    assert (score.faults, score.killed, score.equivalent, score.survived, score.score) == (3, 1, 1, 1, 0.5)

    again = []
    assert BlockCampaign(SPEC, settings, path).run(again.append) == results
    assert again == []

    whole = path.read_text()
    path.write_text(whole[:-20])  # interrupted within a line
    results = BlockCampaign(SPEC, settings, path).run(again.append)
    assert len(again) == 1
    assert [one.status for one in results] == ["killed", "equivalent", "survived"]
    assert sorted(json.loads(line).get("number", -1) for line in path.read_text().splitlines()) == [-1, 0, 1, 2]


@pytest.mark.slow
def test_a_longer_bench_sees_more(settings, tmp_path):
    results = BlockCampaign(SPEC, settings, tmp_path / "perturb.jsonl").run()
    assert [one.status for one in results] == ["killed", "equivalent", "killed"]


@pytest.mark.slow
def test_another_campaign_is_not_continued(settings, tmp_path, monkeypatch):
    path = tmp_path / "perturb.jsonl"
    BlockCampaign(SPEC, settings, path).run()
    BlockCampaign(SPEC, settings, path)
    other = BlockSettings(faults=4, words=3, simulator=settings.simulator)
    with pytest.raises(UserError, match="another faults and words and version of the bench: --force"):
        BlockCampaign(SPEC, other, path)
    with pytest.raises(UserError, match="another parameters and version of the RTL"):
        BlockCampaign(PerturbSpec(rounding="truncate"), settings, path)
    monkeypatch.setattr(faults_module, "component", Perturb)
    with pytest.raises(UserError, match="another version of the RTL: --force"):
        BlockCampaign(SPEC, settings, path)
    BlockCampaign(SPEC, settings, path, force=True)


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "3\n", "no JSON\n", '{"campaign": {}}\n'])
def test_another_file_is_not_continued(text, settings, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=r"mine\.txt is not the record of a campaign"):
        BlockCampaign(SPEC, settings, path)
    assert path.read_text() == text


def test_a_block_that_fails_without_a_fault_is_refused(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(faults_module, "component", lambda _: Perturb(PerturbSpec(overflow="wrap", eps_shift=9)))
    monkeypatch.setattr(campaign_module, "list_faults", list_faults)
    path = tmp_path / "perturb.jsonl"
    with pytest.raises(UserError, match="perturb without a fault does not pass its bench"):
        BlockCampaign(SPEC, BlockSettings(faults=1, words=50, simulator=settings.simulator), path).run()
    assert not path.exists()
