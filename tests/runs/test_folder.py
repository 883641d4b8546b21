"""A folder that is taken, unfinished, of another run, newer or damaged is refused in one sentence."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from quick import SIZE
from understudy import Record, UserError, disk, ftrl, imitate
from understudy.machine import count_cores
from understudy.runs import FORMAT, folder, journal, parse_resume, read_config, read_summary, resuming
from understudy.runs.evaluate import Evaluation

SMALL = SIZE | {"policy": "linear", "episodes": 1, "expert_episodes": 0}


class Stop(Exception):
    pass


def stop(t: int, row: dict) -> None:
    if t == 2:
        raise Stop


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> Path:
    """An unfinished run: two rounds of three."""
    path = tmp_path_factory.mktemp("half") / "run"
    with pytest.raises(Stop):
        imitate("CartPole-v1", out=path, progress=stop, **SMALL)
    return path


@pytest.fixture
def copy(half, tmp_path) -> Path:
    return Path(shutil.copytree(half, tmp_path / "run"))


def resumed(path: Path, **more):
    return imitate("CartPole-v1", out=path, **{"resume": True, **SMALL, **more})


def test_an_unfinished_folder_is_refused_without_resume(copy):
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    with pytest.raises(UserError, match="unfinished run; resume it"):
        imitate("CartPole-v1", out=copy, **SMALL)
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before


def test_an_unfinished_run_is_read_as_it_was_after_its_last_round(copy):
    with open(copy / "ledger.csv", "a") as file:
        file.write("3,40,12")  # the round under way
    run = Record.load(copy)
    assert run.ledger["round"].tolist() == [1, 2] and run.samples("inputs").shape == (80, 4)
    assert run.summary()["rounds"] == 2 and run.summary()["return_mean"] is None
    assert "not finished" in run.certificate.reason and run.policy([0.0, 0.0, 0.1, 0.0]) in (0, 1)


def test_a_finished_folder_is_refused_without_resume_and_read_with_it(copy):
    done = resumed(copy)
    with pytest.raises(UserError, match="a finished run"):
        imitate("CartPole-v1", out=copy, **SMALL)
    assert (
        resumed(copy).summary()
        == done.summary()
        == Record.load(copy).summary()
        == read_summary(copy)["summary"]
    )


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for again in (False, True):
        with pytest.raises(UserError, match="holds other things"):
            imitate("CartPole-v1", out=tmp_path, resume=again, **SMALL)
    with pytest.raises(UserError, match="is a file"):
        imitate("CartPole-v1", out=tmp_path / "thesis.txt", **SMALL)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", 1),
        ("steps_per_round", 50),
        ("policy", "mlp"),
        ("learner", "adaftrl"),
        ("beta", 0.5),
        ("noise", 0.2),
    ],
)
def test_resuming_another_run_is_refused(copy, field, value):
    with pytest.raises(UserError, match=rf"resume: {field} was .* and is .* now"):
        resumed(copy, **{field: value})


def test_what_changes_nothing_that_is_learnt_may_be_other(copy):
    kept = read_config(copy)
    settings, resolved = kept["settings"], dict(kept["settings"]["resolved"])
    assert resolved.pop("ensemble") == 1
    earlier = kept | {"settings": settings | {"resolved": resolved}}  # before there were committees
    now = settings | {"ensemble": 5, "episodes": 7, "resolved": resolved | {"ensemble": 5}}
    resuming.refuse_other(copy, earlier, now, parse_resume(True))
    with pytest.raises(UserError, match="resume: average was None"):
        resuming.refuse_other(copy, earlier, now | {"average": 2}, parse_resume(True))


@pytest.mark.parametrize("what", ["count_cores", "versions"])
def test_another_machine_is_refused_and_taken_when_told_to(copy, monkeypatch, what):
    other = {"count_cores": count_cores() + 1, "versions": {"jax": "0.0.1"}}[what]
    for place in (folder, resuming):
        monkeypatch.setattr(place, what, lambda: other)
    with pytest.raises(UserError, match=r"begun with .* its last bits may differ; --resume=other-machine"):
        resumed(copy)
    with pytest.warns(UserWarning, match="last bits may differ"):
        assert resumed(copy, resume="other-machine").ledger.rounds == 3


def test_a_study_is_not_resumed_as_a_run(tmp_path):
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(UserError, match="is a study; the same understudy sweep continues it"):
        resuming.merge_settings(tmp_path, {})


def test_ways_to_resume_have_names(copy):
    with pytest.raises(UserError, match=r"resume: .*'new-episodes', did you mean 'new-episode'"):
        resumed(copy, resume="new-episodes")


@pytest.mark.parametrize("change", [-1, 1])
def test_the_format_of_another_version_is_refused(copy, change):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"format": FORMAT + change}))
    with pytest.raises(UserError, match="another version"):
        resumed(copy)
    with pytest.raises(UserError, match="another version"):
        read_config(copy)


FILES = ("config.json", "ledger.csv", "times.csv", "samples/inputs.bin", "samples/weights.bin")
LAST = ("rounds/000002.json", "rounds/000002.safetensors")


def hurt(file: Path, how: str) -> None:
    data = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        middle = len(data) // 2
        file.write_bytes(
            data[:middle] + (b"" if how == "half" else bytes([data[middle] ^ 1]) + data[middle + 1 :])
        )


@pytest.mark.parametrize("how", ["half", "flip", "gone"])
@pytest.mark.parametrize("name", [*FILES, *LAST, *folder.POLICY])
def test_damage_to_any_file_is_found_when_a_run_is_loaded(copy, name, how):
    hurt(copy / name, how)
    if (name, how) == (LAST[0], "gone"):
        name = folder.POLICY[0]  # round 1 is the last one then, and the policy is not that of round 1
    with pytest.raises(
        UserError, match=rf"run: .*({Path(name).name}.* (damaged|missing)|has no config.json)"
    ):
        Record.load(copy)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("ledger.csv", 1),
        ("samples/inputs.bin", 1),
        ("samples/inputs.bin", 80 * 16 - 1),
        (LAST[1], 900),
        (LAST[0], 99),
    ],
)
def test_damage_is_called_that_and_the_round_before_is_used_where_it_is_whole(half, copy, tmp_path, name, at):
    """A byte of round 1, of the last row of round 2, of its checkpoint, and of its list of checksums."""
    data = bytearray((copy / name).read_bytes())
    data[at] ^= 64
    (copy / name).write_bytes(data)
    if at == 1:
        with pytest.raises(UserError, match=rf"{name} is damaged: .* there is no good round to go back to"):
            resumed(copy)
        return
    with pytest.warns(UserWarning, match=rf"{name} is damaged: .*; going on from round 1"):
        mended = resumed(copy)
    whole = resumed(Path(shutil.copytree(half, tmp_path / "whole")))
    assert mended.ledger.to_csv() == whole.ledger.to_csv()
    assert mended.samples("inputs").tobytes() == whole.samples("inputs").tobytes()


@pytest.mark.parametrize("name", ["config.json", *folder.POLICY, "summary.json"])
def test_what_follows_from_the_rest_is_written_again(copy, name):
    before = resumed(copy)
    told = (copy / name).read_bytes()
    hurt(copy / name, "flip" if name != "config.json" else "half")
    if name == "config.json":
        with pytest.raises(UserError, match=r"config\.json is damaged"):
            resumed(copy)
        return
    assert resumed(copy).summary()["return_mean"] == before.summary()["return_mean"]
    assert name == "summary.json" or (copy / name).read_bytes() == told
    assert Record.load(copy).ledger.to_csv() == before.ledger.to_csv()


def test_a_finished_run_is_extended(copy, tmp_path):
    first = resumed(copy)
    with pytest.raises(UserError, match=r"rounds was 3 .* and is 2 now"):
        resumed(copy, rounds=2)
    longer = resumed(copy, rounds=5)
    assert longer.ledger["round"].tolist() == [1, 2, 3, 4, 5]
    once = imitate("CartPole-v1", **SMALL | {"rounds": 5})
    loss = longer.ledger["loss"]
    assert (
        loss.tolist() == once.ledger["loss"].tolist() and loss[:3].tolist() == first.ledger["loss"].tolist()
    )
    assert longer.samples("inputs").tobytes() == once.samples("inputs").tobytes()
    # The comparator is that of round 5 now; it was searched for from another start.
    assert longer.certificate.regret == pytest.approx(once.certificate.regret, rel=1e-6)
    assert Record.load(copy).ledger.rounds == 5 and resumed(copy, rounds=5).summary() == longer.summary()


def test_a_finished_run_is_evaluated_again_where_other_episodes_are_asked_for(copy):
    first = resumed(copy)
    more = resumed(copy, episodes=3, memory_limit=1 << 30)
    assert len(first.evaluation.returns) == 1 and len(more.evaluation.returns) == 3
    assert more.evaluation.returns[0] == first.evaluation.returns[0]
    back = Record.load(copy)
    assert back.ledger.to_csv() == first.ledger.to_csv() == more.ledger.to_csv()
    assert back.summary() == more.summary() and back.settings["episodes"] == 3


def test_settings_that_are_not_given_are_those_of_the_run(copy):
    run = imitate(out=copy, resume=True)
    assert run.ledger.rounds == 3
    # The rounds of both processes count.
    assert run.seconds["total"] >= sum(one for part, one in run.seconds.items() if part != "total")


def test_an_object_is_given_again(tmp_path):
    with pytest.raises(Stop):
        imitate("CartPole-v1", out=tmp_path / "run", learner=ftrl(eta=1.0), progress=stop, **SMALL)
    with pytest.raises(UserError, match=r"resume: learner was an object in '.*run', which is not kept"):
        imitate(out=tmp_path / "run", resume=True)
    more = imitate(out=tmp_path / "run", resume=True, learner=ftrl(eta=1.0))
    assert more.ledger.rounds == 3


def test_a_run_that_was_killed_before_it_began_keeps_the_settings_of_now(half, tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copy(half / "config.json", tmp_path / "run")
    resumed(tmp_path / "run", episodes=2)
    assert Record.load(tmp_path / "run").settings["episodes"] == 2


def test_what_a_kill_left_behind_is_forgotten(half, tmp_path):
    """Files that are ahead of the checkpoint, and drafts, as a kill leaves them."""
    clean, torn = (Path(shutil.copytree(half, tmp_path / name)) for name in ("clean", "torn"))
    with open(torn / "ledger.csv", "a") as file:
        file.write("3,40,12")
    with open(torn / "samples" / "inputs.bin", "ab") as file:
        file.write(b"\x01" * 77)
    (torn / "rounds" / "000003.safetensors").write_bytes(b"half a checkpo")
    (torn / "rounds" / "000003.json.tmp").write_bytes(b"{")
    resumed(clean), resumed(torn)
    for name in ("ledger.csv", "policy.safetensors", "samples/inputs.bin"):
        assert (clean / name).read_bytes() == (torn / name).read_bytes()


def test_a_second_process_on_the_same_folder_is_refused(copy):
    pytest.importorskip("fcntl")
    first = folder.Folder(copy, read_config(copy)["settings"], resume=parse_resume(True))
    try:
        with pytest.raises(UserError, match="another process"):
            resumed(copy)
    finally:
        first.close()


def test_a_full_disk_is_told_and_what_was_done_is_kept(tmp_path, monkeypatch):
    """The third round's checkpoint cannot be written: the sentence says so, and resuming goes on from round
    two.
    """
    written = []
    real = disk.write_file

    def full(path: Path, data: bytes | str) -> None:
        if path.parent.name == "rounds" and path.suffix == ".safetensors":
            written.append(path)
            if len(written) == 3:
                path.with_name(path.name + ".tmp").write_bytes(data[:10])
                raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(disk, "write_file", full)
    with pytest.raises(UserError, match=r"No space left on device.*kept"):
        imitate("CartPole-v1", out=tmp_path / "full", **SMALL)
    monkeypatch.undo()
    resumed(tmp_path / "full")
    imitate("CartPole-v1", out=tmp_path / "roomy", **SMALL)
    for name in ("ledger.csv", "policy.safetensors"):
        assert (tmp_path / "full" / name).read_bytes() == (tmp_path / "roomy" / name).read_bytes()


def test_labels_that_cannot_be_read_are_told_and_the_folder_is_left(copy, monkeypatch):
    (copy / "labels.bin").write_bytes(b"")

    def torn(self, file):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(UserError, match="Input/output error"):
        patch.setattr(journal.Journal, "_read", torn)
        resumed(copy)
    assert resumed(copy).ledger.rounds == 3  # nobody holds the lock


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        imitate("CartPole-v1", out=tmp_path / "file" / "run", **SMALL)


def test_save_and_load_keep_the_account(tmp_path):
    run = imitate("CartPole-v1", **SMALL)
    run.save(tmp_path / "kept")
    back = Record.load(tmp_path / "kept")
    assert back.ledger.to_csv() == run.ledger.to_csv()
    assert back.summary() == run.summary() | {"run": str(tmp_path / "kept")}
    assert repr(back.certificate) == repr(run.certificate)  # nan is not equal to itself
    with pytest.raises(UserError, match="a finished run"):
        run.save(tmp_path / "kept")
    played = Evaluation(np.array([math.nan, 1.0]), np.array([5, 5]))
    settings = run.settings | {"resolved": run.settings["resolved"] | {"card_return": 0.0}}
    again = dataclasses.replace(run, settings=settings, evaluation=played)
    again.save(tmp_path / "again")
    back = Record.load(tmp_path / "again")
    np.testing.assert_array_equal(back.evaluation.returns, [math.nan, 1.0])
    assert back.summary()["return_mean"] is None and back.summary()["expert_return_mean"] == 0.0


def test_every_file_of_a_run_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    synced, plain = set(), os.fsync

    def spy(handle):
        synced.add(Path(os.readlink(f"/proc/self/fd/{handle}")).name.removesuffix(".tmp"))
        return plain(handle)

    monkeypatch.setattr(os, "fsync", spy)
    imitate("CartPole-v1", out=tmp_path / "run", **SMALL)
    written = {file.name for file in (tmp_path / "run").rglob("*") if file.is_file()} - {
        "lock",
        "labels.before.bin",
    }
    assert {"policy.safetensors", "policy.json", "inputs.bin", "000003.json", "000003.safetensors"} <= written
    assert written <= synced
