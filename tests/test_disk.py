"""Files are whole and synced, numbers keep every digit, and what is wrong with a file is one sentence."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile

import numpy as np
import pytest
from gymnasium import spaces

from quick import SIZE
from understudy import TrainedPolicy, UserError, disk, imitate
from understudy.policies import Actions, Linear, Normaliser, Observations


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """The names of files and folders as they are synced."""
    seen: list[str] = []
    real = os.fsync

    def spy(handle: int) -> None:
        seen.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        real(handle)

    monkeypatch.setattr(os, "fsync", spy)
    return seen


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")


@needs_proc
def test_a_file_is_synced_under_its_draft_name_and_then_its_folder(tmp_path, synced):
    disk.write_file(tmp_path / "deep" / "one.txt", "text")
    assert synced == ["one.txt.tmp", "deep"]
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["one.txt"]
    synced.clear()
    assert disk.append_file(tmp_path / "deep" / "one.txt", b" more") == 9
    assert synced == ["one.txt"]


@needs_proc
def test_everything_in_the_folder_of_a_run_is_synced(tmp_path, synced):
    imitate("CartPole-v1", policy="linear", episodes=0, out=tmp_path / "run", **SIZE)
    names = {one.relative_to(tmp_path / "run").name for one in (tmp_path / "run").rglob("*") if one.is_file()}
    assert {"policy.json", "policy.safetensors"} <= names
    assert names - {"lock", "labels.before.bin"} <= {name.removesuffix(".tmp") for name in synced}


@needs_proc
def test_a_policy_is_synced(tmp_path, synced):
    seen, acts = Observations.of(spaces.Box(-1, 1, (2,))), Actions.of(spaces.Box(-1, 1, (2,)))
    TrainedPolicy(Linear(), np.eye(2), seen, acts, Normaliser.identity(2)).save(tmp_path / "one")
    assert {"one.json.tmp", "one.safetensors.tmp", tmp_path.name} == set(synced)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    disk.write_file(tmp_path / "one", "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"), disk.reporting(tmp_path):
        disk.write_file(tmp_path / "one", "new")
    assert (tmp_path / "one").read_text() == "old"


def test_json_has_null_for_what_is_not_finite_and_comes_back_where_asked():
    value = {"a": [math.inf, -math.inf, 0.1, np.float32(0.5)], "b": (np.arange(2), np.nan), "c": "#nan?"}
    text = disk.to_json(value)
    assert json.loads(text) == {"a": [None, None, 0.1, 0.5], "b": [[0, 1], None], "c": "#nan?"}
    back = disk.from_json(disk.to_json(value, lossless=True))
    assert back["a"] == [math.inf, -math.inf, 0.1, 0.5] and math.isnan(back["b"][1]) and back["c"] == "#nan?"


def test_csv_keeps_every_digit(tmp_path):
    numbers = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
    disk.write_file(tmp_path / "a.csv", disk.to_csv({"x": numbers.tolist(), "name": ['a,"b"'] * 50}))
    rows = disk.read_csv(tmp_path / "a.csv", "run")
    assert [float(row["x"]) for row in rows] == numbers.tolist() and rows[7]["name"] == 'a,"b"'


def test_tensors_come_back_with_their_shapes_and_metadata(tmp_path):
    arrays = {"one": np.float32(3.0), "two": np.arange(6).reshape(2, 3).T}
    disk.write_tensors(tmp_path / "a.safetensors", arrays, {"k": "v"})
    back, metadata = disk.read_tensors(tmp_path / "a.safetensors", "run")
    assert metadata == {"k": "v"} and back["one"].shape == () and back["one"].dtype == np.float32
    assert (back["two"] == arrays["two"]).all()


@pytest.mark.parametrize("read", [disk.read_json, disk.read_tensors, disk.read_csv])
def test_a_damaged_file_is_one_sentence(tmp_path, read):
    (tmp_path / "bad").write_bytes(b"\xff\xfe{")
    with pytest.raises(UserError, match=r"^run: .*bad is damaged"):
        read(tmp_path / "bad", "run")


def test_a_file_of_another_kind_is_not_replaced(tmp_path):
    from understudy import TrainedPolicy, export, write_report

    mine = tmp_path / "mine.py"
    mine.write_text("precious")
    for to, ending in (("numpy", ".npz"), ("onnx", ".onnx")):
        with pytest.raises(UserError, match=rf"out: '.*mine.py' must end in {ending}\."):
            export(object.__new__(TrainedPolicy), to, mine)
    with pytest.raises(UserError, match=r"out: '.*mine.py' must end in .html or .htm\."):
        write_report(tmp_path, out=mine)
    assert mine.read_text() == "precious"


def test_a_name_that_is_no_text_is_kept(tmp_path):
    """Paths may have bytes that are no UTF-8; Python has them as lone surrogates."""
    told = {"run": os.fsdecode(b"caf\xe9"), "word": "caf\u00e9"}
    disk.write_file(tmp_path / "told.json", disk.to_json(told, indent=2))
    assert disk.read_json(tmp_path / "told.json", "told") == told


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    disk.refuse_taken(tmp_path / "new" / "newer")
    with pytest.raises(UserError, match=r"out: .* cannot be made: .*file' cannot be written to"):
        disk.refuse_taken(tmp_path / "file" / "new")


@pytest.mark.parametrize("read", [disk.read_npz, disk.open_npz])
def test_members_of_an_archive_count_each_though_two_have_one_name(tmp_path, monkeypatch, read):
    """NumPy takes "a" and "a.npy" for one array, and reads the first as it is."""
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10_000_000))
        archive.writestr("a.npy", array.getvalue())
    monkeypatch.setattr(disk, "total_memory", lambda: 10_000_000)
    with pytest.raises(UserError, match="bytes are more than half of this machine's memory"):
        read(tmp_path / "a.npz", "demos")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(-5, 3), (10**12, 3)])
def test_rows_that_an_archive_does_not_have_are_one_sentence(tmp_path, monkeypatch, shape):
    array = io.BytesIO()
    about = {"shape": shape, "fortran_order": False, "descr": "<f4"}
    np.lib.format.write_array_header_1_0(array, about)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", array.getvalue() + bytes(400))
    monkeypatch.setattr(disk, "LARGE", 100)
    stored = disk.open_npz(tmp_path / "a.npz", "demos")["a"]
    with pytest.raises(UserError, match=r"demos: .*a\.npz is no \.npz archive of plain arrays"):
        np.asarray(stored)
