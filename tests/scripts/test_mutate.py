"""`fabtune mutate`: the report, and what is refused before the work begins."""

import json


def test_a_campaign_is_reported_and_continued(fabtune, fast_simulator, tmp_path):
    line = ("mutate", "perturb", "--faults", 2, "--words", 40, "--simulator", fast_simulator, "--seconds", 20)
    status, out, err = fabtune(*line, "--json")
    told = json.loads(out)
    assert told["faults"] == 2 == len(told["results"])
    assert status == (1 if told["survived"] or told["undecided"] else 0)
    assert {"description", "by", "seconds"} <= set(told["results"][0])
    assert (tmp_path / "build/mutation/perturb.jsonl").read_text().count("\n") == 3
    status, out, err = fabtune(*line)
    assert "score" in out
    assert err == ""


def test_a_record_of_another_campaign_is_kept(fabtune, fast_simulator, tmp_path):
    (tmp_path / "mine.jsonl").write_text("mine\n")
    line = ("mutate", "perturb", "--simulator", fast_simulator, "-o", "mine.jsonl")
    status, _, err = fabtune(*line)
    assert status == 2
    assert "mine.jsonl is not the record of a campaign" in err
    assert (tmp_path / "mine.jsonl").read_text() == "mine\n"


def test_what_cannot_be_done_is_refused(fabtune):
    for line, told in (
        (("zotrain",), "a whole core"),
        (("gone",), "there is no block"),
        (("perturb", "--simulator", "gone"), "no simulator called"),
        (("perturb", "--faults", "0"), "--faults"),
    ):
        status, out, err = fabtune("mutate", *line)
        assert (status, out) == (2, "")
        assert told in err
        assert err.count("\n") == 1
