"""Teachers of other libraries: rsl_rl's checkpoints and brax's parameters answer as their makers do."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from understudy import UserError, disk
from understudy.experts import brax, resolve, rsl_rl

FOLDER = Path(__file__).parents[1] / "fixtures" / "teachers"
SPACES: dict[str, Any] = {
    "observation_space": Box(-np.inf, np.inf, (5,)),
    "action_space": Box(-np.inf, np.inf, (2,)),
}
LAYOUTS = ("rsl_rl-2", "rsl_rl-3", "rsl_rl-3-distillation", "rsl_rl-5")


@pytest.mark.parametrize("name", [*(f"{one}.pt" for one in LAYOUTS), "brax.msgpack"])
def test_a_teacher_answers_as_its_maker_did(name):
    expert = resolve(str(FOLDER / name), **SPACES)
    with np.load(FOLDER / f"{Path(name).stem}-outputs.npz") as known:
        found = expert.label(known["observations"])
        assert np.abs(found - known["actions"]).max() < 1e-6
        assert expert.pure is not None  # the same on the device, where thousands of environments are
        assert np.abs(expert.pure(known["observations"]) - known["actions"]).max() < 1e-5
        other = resolve(str(FOLDER / name), activation="relu", **SPACES)
        assert np.abs(other.label(known["observations"]) - known["actions"]).max() > 1e-3
    assert expert.card["normalised"] and expert.name == Path(name).stem


def test_brax_parameters_are_the_same_from_memory_and_from_an_archive(tmp_path):
    tree = brax.unpack((FOLDER / "brax.msgpack").read_bytes(), "file")
    rows = np.ones((3, 5), np.float32)
    wanted = resolve(str(FOLDER / "brax.msgpack"), **SPACES).label(rows)
    assert (resolve((tree["0"], tree["1"], tree["2"]), **SPACES).label(rows) == wanted).all()
    alone = resolve(str(FOLDER / "brax.msgpack"))  # half of what the network gives are deviations
    assert alone.action_space == Box(-1.0, 1.0, (2,)) and (alone.label(rows) == wanted).all()
    flat = {f"0/{name}": tree["0"][name] for name in ("mean", "std")}
    for layer, parts in tree["1"]["params"].items():
        flat |= {f"1/params/{layer}/{name}": part for name, part in parts.items()}
    np.savez(tmp_path / "policy.npz", **flat)
    assert (resolve(str(tmp_path / "policy.npz"), **SPACES).label(rows) == wanted).all()


def test_a_distillation_has_two_networks_and_the_teacher_is_asked_for_by_name():
    path = FOLDER / "rsl_rl-3-distillation.pt"
    assert rsl_rl.load(path).card["algorithm"] == "rsl_rl, its student"
    assert rsl_rl.load(path, who="teacher").action_space.shape == (1,)
    with pytest.raises(UserError, match="has no actor of rsl_rl in it; it has student, teacher"):
        rsl_rl.load(path, who="actor")


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/understudy-was-here",)


def repacked(change, folder: Path) -> Path:
    """The checkpoint of rsl_rl 2 with another pickle in it."""
    with zipfile.ZipFile(FOLDER / "rsl_rl-2.pt") as old:
        members = {info.filename: old.read(info) for info in old.infolist()}
    name = next(name for name in members if name.endswith("data.pkl"))
    members[name] = change(members[name])
    with zipfile.ZipFile(folder / "model.pt", "w") as new:
        for key, data in members.items():
            new.writestr(key, data)
    return folder / "model.pt"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: pickle.dumps({"model_state_dict": Evil()}, 2), r"would call (posix|nt).system"),
        (lambda data: pickle.dumps({"infos": Evil(), "model_state_dict": {}}, 2), "nothing was run"),
        (lambda data: data[: len(data) // 2], "is damaged"),
        (lambda data: pickle.dumps({"model_state_dict": {"x.0.weight": 1}}, 2), "has no actor of rsl_rl"),
    ],
)
def test_a_checkpoint_that_is_none_is_refused_and_nothing_is_run(change, told, tmp_path):
    with pytest.raises(UserError, match=told):
        rsl_rl.load(repacked(change, tmp_path))
    assert not Path("/tmp/understudy-was-here").exists()


def test_a_pickle_is_not_read_whatever_it_is_called(tmp_path):
    for name in ("params.msgpack", "params.pt", "params.npz"):
        (tmp_path / name).write_bytes(pickle.dumps(Evil()))
        with pytest.raises(UserError, match=r"params\.\w+"):
            resolve(str(tmp_path / name), **SPACES)
    assert not Path("/tmp/understudy-was-here").exists()


def test_what_does_not_fit_is_said_in_one_sentence(tmp_path):
    path = str(FOLDER / "rsl_rl-3.pt")
    with pytest.raises(UserError, match="takes 5 numbers, the observations have 4"):
        resolve(path, observation_space=Box(-1, 1, (4,)), action_space=SPACES["action_space"])
    with pytest.raises(UserError, match=r"gives 2 numbers, actions .* have 3"):
        resolve(path, observation_space=SPACES["observation_space"], action_space=Box(-1, 1, (3,)))
    with pytest.raises(UserError, match=r"its actions are numbers \(Box\)"):
        resolve(path, observation_space=SPACES["observation_space"], action_space=Discrete(2))
    with pytest.raises(UserError, match="has no layers hidden_0"):
        brax.from_params(({}, {"params": {"dense": {}}}))
    with pytest.raises(UserError, match="brax parameters is damaged"):
        resolve(("lqr-CartPole-v1", "a pair of names is no expert"))
    with pytest.raises(UserError, match="there is no checkpoint"):
        resolve(str(tmp_path / "none.pt"))
    for ending in ("", ".pt", ".zip", ".npz", ".safetensors"):
        with pytest.raises(UserError):
            resolve("x" * 300 + ending)  # longer than a file's name can be


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 100,
        b"\xc1",
        b"\x81\x01\x02",
        b"\xc7\x03\x01\x93\x91\x7f",
        b"\x01\x02",
    ],
)
def test_msgpack_of_a_stranger_is_refused(data):
    with pytest.raises(UserError, match=r"^file: "):
        brax.unpack(data, "file")


def test_msgpack_is_not_larger_in_memory_than_in_the_file(monkeypatch):
    monkeypatch.setattr(brax, "MANY", 1000)
    with pytest.raises(UserError, match="more than 1,000 values"):
        brax.unpack(b"\xdc\x03\xe8" + b"\x90" * 1000, "file")
    data = b"\xc0"
    for _ in range(5):  # each would hold what is left of the file once more
        data = b"\xc7" + bytes([len(data)]) + b"\x01" + data
    with pytest.raises(UserError, match="nested deeper"):
        brax.unpack(data, "file")


def test_an_archive_that_promises_more_than_there_is_memory_is_refused(tmp_path, monkeypatch):
    header, path = io.BytesIO(), tmp_path / "params.npz"
    about = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(header, about)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("0/mean.npy", header.getvalue())
    with pytest.raises(UserError, match=r"is no \.npz archive of plain arrays \(Unable to allocate"):
        resolve(str(path))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("0/mean.npy", b"no array")  # of which NumPy gives the bytes
    with pytest.raises(UserError, match="'0/mean' is no array"):
        resolve(str(path))
    np.savez_compressed(path, **{"0/mean": np.zeros(10_000)})
    monkeypatch.setattr(disk, "total_memory", lambda: 100_000)
    with pytest.raises(UserError, match="bytes are more than half of this machine's memory"):
        resolve(str(path))


def test_every_prefix_of_a_file_is_refused():
    whole = (FOLDER / "brax.msgpack").read_bytes()
    for size in range(0, len(whole), 37):
        with pytest.raises(UserError):
            brax.from_params(brax.unpack(io.BytesIO(whole[:size]).read(), "file"))
