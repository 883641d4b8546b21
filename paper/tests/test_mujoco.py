"""The MuJoCo study, small: what is tuned, what is played, what is told; and that it goes on where it was."""

from __future__ import annotations

import numpy as np
import pytest

from paper import claims, mujoco, mujoco_report
from paper.host import panels, rows
from paper.mujoco import Effort, Scale, part, study
from understudy.errors import UserError
from understudy.studies import running, tuning

SCALE = Scale(
    {"linear-100": Effort(("squared",), "1e-2:1e2:log2", kept=1, evaluations=1)},
    envs=("Pendulum-v1",),  # cheaper to step; the study is the same
    total=200,
    seeds=2,
    episodes=1,
)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mujoco")
    with pytest.MonkeyPatch.context() as patch:  # as few rounds as the full pass: twenty choose no better
        patch.setitem(tuning.COARSE, "rounds", 2)
        yield part("linear-100", SCALE, folder, engine="inline"), folder


def test_the_full_study_is_the_papers():
    full = mujoco.SCALES["full"]
    linear, network = study("linear", full), study("network", full)
    # Two environments, losses and drives; FTL once, the other five with eleven steps.
    assert len(linear.runs) == 8 * (1 + 5 * 11)
    # The inner step is tuned for those that solve: FTL, and three with a step; OGD and AdaGrad do not solve.
    assert len(network.runs) == 8 * (5 + 3 * 55 + 2 * 11)
    spec = linear.runs[0].spec
    assert spec.preset == "paper" and spec.rounds * spec.steps_per_round == 25_000
    assert {entry.spec.beta for entry in linear.runs} == {0.0, 1.0}
    fine = study("linear-100", full).runs[0].spec
    assert (fine.steps_per_round, fine.rounds) == (100, 250)


def test_the_step_with_the_least_coarse_loss_is_played_with_every_seed(played):
    done, _ = played
    coarse = done.tuned.coarse
    for choice in done.tuned.choices:
        if choice.tried > 1:
            mine = {
                entry.labels["step"]: result.summary["average_loss"]
                for entry, result in zip(coarse.entries, coarse.results, strict=True)
                if all(entry.labels[name] == value for name, value in choice.setting.items())
            }
            assert choice.values["step"] == min(mine, key=mine.get)
    seeds = {(row["learner"], row["drive"]): set() for row in rows([done])}
    for row in rows([done]):
        seeds[row["learner"], row["drive"]].add(row["seed"])
    assert all(found == {0, 1} for found in seeds.values())
    assert {name for name, _ in seeds} == set(mujoco.LEARNERS)  # 1 is not on this grid: none is untuned


def test_it_goes_on_where_it_was(played, monkeypatch):
    done, folder = played

    def engine(shards, work):
        raise AssertionError("everything is finished: nothing is to be played")

    monkeypatch.setattr(running, "ENGINES", {"inline": engine})
    monkeypatch.setattr(running, "check_engine", lambda name, address: None)
    again = part("linear-100", SCALE, folder, engine="inline")
    assert rows([again]) == rows([done]) or str(rows([again])) == str(rows([done]))


def test_claims_and_files(played, tmp_path):
    done, _ = played
    found = mujoco_report.judged([done])
    kinds = {one.claim[:3] for one in found}
    assert {"(1)", "(2)", "(3)", "(5)", "(6)"} <= kinds
    one = panels([done])[0]
    wanted = claims.ratio(one.loss_of("ftrl"), one.loss_of("ftl"))[0]
    told = next(c for c in found if c.measure == "ftrl/ftl" and c.setting.startswith(one.name))
    assert told.value == pytest.approx(wanted)
    names = mujoco_report.write(tmp_path, [done], found)
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    assert {"linear-100-agent.png", "linear-100-expert.svg", "rounds.csv.gz", "choices.csv"} <= set(names)
    # Alt-FTRL, solved exactly, is FTRL, and is counted once.
    assert one.distinct(("ftrl", "alt_ftrl", "adaftrl")) == ["ftrl", "adaftrl"]
    assert not any("alt_ftrl" in each.setting for each in found)
    # The tables are enough to judge again.
    (tmp_path / "again").mkdir()
    tables = mujoco_report.read(tmp_path)
    again = mujoco_report.judged([tables])
    assert [(c.claim, c.setting) for c in again] == [(c.claim, c.setting) for c in found]
    np.testing.assert_allclose([c.value for c in again], [c.value for c in found], rtol=1e-4)
    mujoco_report.write(tmp_path / "again", [tables], again)
    for name in ("rounds.csv.gz", "choices.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"has no rounds\.csv\.gz"):
        mujoco_report.read(tmp_path)


def test_a_run_that_failed_counts_as_infinitely_bad(played):
    done, _ = played
    entries, results = done.final.entries, list(done.final.results)
    place = next(i for i, entry in enumerate(entries) if entry.labels["learner"] == "ogd")
    results[place] = results[place]._replace(rows=[], error="round 1: it broke")
    broken = done._replace(final=running.Results(entries, results, None))
    drive = "expert" if entries[place].labels["beta"] == 1.0 else "agent"
    one = next(panel for panel in panels([broken]) if panel.drive == drive)
    assert np.isinf(one.loss_of("ogd")).tolist() == [True, False]
    assert np.isfinite(one.loss_of("ftl")).all()
    # Not even where every learner has lost a run.
    lost = [
        result._replace(rows=[], error="it broke") if entry.labels["seed"] == 1 else result
        for entry, result in done.final
    ]
    for two in panels([done._replace(final=running.Results(entries, lost, None))]):
        assert all(np.isinf(two.loss_of(name)).tolist() == [False, True] for name in two.learners)
    assert panels([done._replace(final=running.Results(entries[1::2], lost[1::2], None))]) == []
    # A learner that has the highest return and a run without a round, and one that has no run at all.
    most = max(one.learners, key=lambda name: np.nanmean(one.return_of(name)))
    for gone in (1, 2):
        places = [i for i, entry in enumerate(entries) if entry.labels["learner"] == most][:: 3 - gone]
        fewer = [
            one._replace(rows=[], error="round 1: it broke") if i in places else one
            for i, one in enumerate(done.final.results)
        ]
        assert mujoco_report.judged([done._replace(final=running.Results(entries, fewer, None))])
    beaten = [
        c for c in mujoco_report.judged([broken]) if c.claim.startswith("(1)") and one.name in c.setting
    ]
    assert beaten and all(c.measure.endswith("adagrad") for c in beaten)
