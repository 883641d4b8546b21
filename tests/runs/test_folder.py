"""A folder that is taken, unfinished, of another run, newer or damaged is refused in one sentence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from understudy import Run, UserError, disk, imitate
from understudy.machine import cores
from understudy.runs import folder, read_config, read_summary

SMALL = {"policy": "linear", "rounds": 3, "interactions": 40, "episodes": 1, "expert_episodes": 0}


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
    return imitate("CartPole-v1", out=path, resume=True, **{**SMALL, **more})


def test_an_unfinished_folder_is_refused_without_resume(copy):
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    with pytest.raises(UserError, match="unfinished run; resume it"):
        imitate("CartPole-v1", out=copy, **SMALL)
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before
    with pytest.raises(UserError, match="not finished"):
        Run.load(copy)


def test_a_finished_folder_is_refused_without_resume_and_read_with_it(copy):
    done = resumed(copy)
    with pytest.raises(UserError, match="a finished run"):
        imitate("CartPole-v1", out=copy, **SMALL)
    assert (
        resumed(copy).summary() == done.summary() == Run.load(copy).summary() == read_summary(copy)["summary"]
    )


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(UserError, match="holds other things"):
            imitate("CartPole-v1", out=tmp_path, resume=resume, **SMALL)
    with pytest.raises(UserError, match="is a file"):
        imitate("CartPole-v1", out=tmp_path / "thesis.txt", **SMALL)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", 1),
        ("interactions", 50),
        ("policy", "mlp"),
        ("learner", "adaftrl"),
        ("beta", 0.5),
        ("noise", 0.2),
    ],
)
def test_resuming_another_run_is_refused(copy, field, value):
    with pytest.raises(UserError, match=rf"resume: {field} was .* and is .* now"):
        resumed(copy, **{field: value})


def test_another_number_of_cores_is_refused(copy):
    config = json.loads((copy / "config.json").read_text())
    config["cores"] = cores() + 1
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="cores"):
        resumed(copy)


@pytest.mark.parametrize("change", [-1, 1])
def test_the_format_of_another_version_is_refused(copy, change):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"format": folder.FORMAT + change}))
    with pytest.raises(UserError, match="another version"):
        resumed(copy)
    with pytest.raises(UserError, match="another version"):
        read_config(copy)


TEXTS = ("config.json", "checkpoint.safetensors", "ledger.csv", "times.csv")
SAMPLES = ("samples/inputs.bin", "samples/flags.bin")  # numbers: any bytes of the right length are some
DAMAGES = [(name, how) for name in TEXTS for how in ("half", "noise", "gone")]
DAMAGES += [(name, how) for name in SAMPLES for how in ("half", "gone")]


@pytest.mark.parametrize(("name", "how"), DAMAGES)
def test_a_damaged_folder_is_refused_in_one_sentence(copy, name, how):
    file = copy / name
    data = file.read_bytes()
    if how == "half":
        file.write_bytes(data[: len(data) // 2])
    elif how == "gone":
        file.unlink()
    else:
        file.write_bytes(os.urandom(len(data)))
    if name == "checkpoint.safetensors" and how == "gone":
        resumed(copy)  # nothing counts yet, so it begins anew
        return
    with pytest.raises(UserError) as told:
        resumed(copy)
    assert "\n" not in str(told.value)


def test_what_a_kill_left_behind_is_forgotten(half, tmp_path):
    """Files that are ahead of the checkpoint, and drafts, as a kill leaves them."""
    clean, torn = (Path(shutil.copytree(half, tmp_path / name)) for name in ("clean", "torn"))
    with open(torn / "ledger.csv", "a") as file:
        file.write("3,40,12")
    with open(torn / "samples" / "inputs.bin", "ab") as file:
        file.write(b"\x01" * 77)
    (torn / "checkpoint.safetensors.tmp").write_bytes(b"half a checkpo")
    resumed(clean), resumed(torn)
    for name in ("ledger.csv", "policy.safetensors", "samples/inputs.bin"):
        assert (clean / name).read_bytes() == (torn / name).read_bytes()


def test_a_second_process_on_the_same_folder_is_refused(copy):
    pytest.importorskip("fcntl")
    first = folder.Folder(copy, read_config(copy)["settings"], resume=True)
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
    real = disk.write

    def full(path: Path, data: bytes | str) -> None:
        if path.name == "checkpoint.safetensors":
            written.append(path)
            if len(written) == 3:
                path.with_name(path.name + ".tmp").write_bytes(data[:10])
                raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(disk, "write", full)
    with pytest.raises(UserError, match=r"No space left on device.*kept"):
        imitate("CartPole-v1", out=tmp_path / "full", **SMALL)
    monkeypatch.undo()
    resumed(tmp_path / "full")
    imitate("CartPole-v1", out=tmp_path / "roomy", **SMALL)
    for name in ("ledger.csv", "policy.safetensors"):
        assert (tmp_path / "full" / name).read_bytes() == (tmp_path / "roomy" / name).read_bytes()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        imitate("CartPole-v1", out=tmp_path / "file" / "run", **SMALL)


def test_save_and_load_keep_the_account(tmp_path):
    run = imitate("CartPole-v1", **SMALL)
    run.save(tmp_path / "kept")
    back = Run.load(tmp_path / "kept")
    assert back.ledger.to_csv() == run.ledger.to_csv()
    assert back.summary() == run.summary() | {"run": str(tmp_path / "kept")}
    assert repr(back.certificate) == repr(run.certificate)  # nan is not equal to itself
    with pytest.raises(UserError, match="a finished run"):
        run.save(tmp_path / "kept")


def test_every_file_of_a_run_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    synced, plain = set(), os.fsync

    def spy(handle):
        synced.add(Path(os.readlink(f"/proc/self/fd/{handle}")).name.removesuffix(".tmp"))
        return plain(handle)

    monkeypatch.setattr(os, "fsync", spy)
    imitate("CartPole-v1", policy="linear", rounds=1, interactions=20, episodes=0, out=tmp_path / "run")
    written = {file.name for file in (tmp_path / "run").rglob("*") if file.is_file()} - {"lock"}
    assert {"policy.safetensors", "policy.json", "inputs.bin", "checkpoint.safetensors"} <= written
    assert written <= synced
