"""Images take the memory of their bytes: those of demonstrations and those of rounds, alone and with numbers
beside them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
import zipfile

import gymnasium as gym
import numpy as np
import pytest

from quick import SIZE
from understudy import Run, UserError, disk, imitate
from understudy.cli.train import outcome
from understudy.policies import Actions, Observations
from understudy.report import tables
from understudy.runs import imitate as imitating
from understudy.samples import demos

SIDE = 64
BOX = gym.spaces.Box(0, 255, (1, SIDE, SIDE), np.uint8)
BESIDE = gym.spaces.Dict(joints=gym.spaces.Box(-1, 1, (2,)), view=BOX)
# The most memory of a process that is no file's, while it learns from so many images.
PROGRAM = """
import json, sys, threading
import gymnasium as gym, numpy as np
import understudy
from understudy.samples import demos, log

wanted = json.loads(sys.argv[1])
rows, beside = wanted["rows"], wanted["beside"]

class Pictures(gym.Env):
    view = gym.spaces.Box(0, 255, (1, SIDE, SIDE), np.uint8)
    observation_space = gym.spaces.Dict(joints=gym.spaces.Box(-1, 1, (2,)), view=view) if beside else view
    action_space = gym.spaces.Box(-1, 1, (1,))

    def show(self):
        view = np.full((1, SIDE, SIDE), self.age, np.uint8)
        return {"joints": np.zeros(2, np.float32), "view": view} if beside else view

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.show(), {}

    def step(self, action):
        self.age += 1
        return self.show(), 0.0, False, self.age >= 50, {}

def measured():
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

most, over = [0], threading.Event()

def watch():
    while not over.wait(0.002):
        most[0] = max(most[0], measured())

if wanted["plain"]:  # as columns like others
    log.image_columns = demos.image_columns = lambda observations: None
settings = dict(policy="mlp", policy_options={"widths": (4,)}, ensemble=1, max_iterations=2)
settings |= dict(comparator="none", episodes=0, memory_limit=wanted["limit"])
if wanted["demos"] is not None:
    settings |= dict(demos=wanted["demos"], rounds=0)
else:
    settings |= dict(rounds=rows // 500, steps_per_round=500)
watching = threading.Thread(target=watch)
watching.start()
try:
    run = understudy.imitate(Pictures, expert=lambda seen: np.zeros(1, np.float32), **settings)
    assert len(run.samples("inputs")) == rows
finally:
    over.set()
    watching.join()
print(most[0])
""".replace("SIDE", str(SIDE))


def archive(path, rows: int, beside: bool):
    """Demonstrations, packed so that writing them is quick."""
    views = np.broadcast_to((np.arange(rows) % 251).astype(np.uint8)[:, None, None, None], (rows, *BOX.shape))
    joints = np.zeros((rows, 2), np.float32)
    seen = {"observations/joints": joints, "observations/view": views} if beside else {"observations": views}
    np.savez_compressed(path, **seen, actions=np.zeros((rows, 1), np.float32))
    return path


def memory(rows: int, beside: bool, demos: str | None, *, limit: int = 2**31, plain: bool = False) -> int:
    wanted = {"rows": rows, "beside": beside, "demos": demos, "limit": limit, "plain": plain}
    command = [sys.executable, "-c", PROGRAM, json.dumps(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say what is in memory")
@pytest.mark.parametrize("beside", [False, True])
def test_more_demonstrations_take_their_bytes_and_no_more_than_the_limit(tmp_path, beside):
    few, many = 4_000, 34_000
    size = (many - few) * SIDE**2
    less = str(archive(tmp_path / "few.npz", few, beside))
    more = str(archive(tmp_path / "many.npz", many, beside))
    before = memory(few, beside, less)
    assert memory(many, beside, more) - before < 1.3 * size
    assert memory(many, beside, more, limit=size // 8) - before < 0.3 * size
    assert memory(many, beside, more, plain=True) - before > 1.7 * size


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say what is in memory")
@pytest.mark.parametrize("beside", [False, True])
def test_more_rounds_take_the_bytes_of_their_samples_and_no_more_than_the_limit(beside):
    few, many = 4_000, 24_000
    size = (many - few) * SIDE**2

    def least(rows: int, **limit: float) -> float:
        return min(memory(rows, beside, None, **limit) for _ in range(2))  # a busy machine only adds

    before = least(few)
    assert 0.8 * size < least(many) - before < 1.3 * size
    assert least(many, limit=size // 8) - before < 0.5 * size  # a round is in memory


def recorded(path, beside: bool, **limit: float):
    """The demonstrations, and the most memory that reading them took, as a share of their images."""
    space, actions = BESIDE if beside else BOX, gym.spaces.Box(-1, 1, (1,))
    tracemalloc.start()
    found = demos.recorded(str(path), Observations.of(space), Actions.of(actions), **limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, peak / (len(found) * SIDE**2)


@pytest.mark.parametrize("beside", [False, True])
def test_demonstrations_are_in_memory_once_while_they_are_read(tmp_path, monkeypatch, beside):
    path, rows = archive(tmp_path / "demos.npz", 6_000, beside), np.arange(6_000) % 251
    monkeypatch.setattr(demos, "TOGETHER", 64)
    recorded(path, beside)  # imports, and what is made once
    found, share = recorded(path, beside)
    assert share < 1.3
    mapped, share = recorded(path, beside, limit=2**20)
    assert share < 0.3
    for one in (found, mapped):
        assert np.array_equal(np.rint(one.inputs[:][:, 5] * (255 if beside else 1)), rows)
    monkeypatch.setattr(disk, "open_npz", disk.read_npz)
    whole, share = recorded(path, beside)
    assert share > 1.7 and np.array_equal(whole.inputs[:], found.inputs[:])


@pytest.mark.parametrize("limit", [2**31, 2**18])
def test_actions_that_were_written_column_by_column_stay_with_their_images(tmp_path, monkeypatch, limit):
    actions = np.linspace(-1, 1, 400, dtype=np.float32).reshape(200, 2)
    seen = np.zeros((200, *BOX.shape), np.uint8)
    np.savez(tmp_path / "demos.npz", observations=seen, actions=np.asfortranarray(actions))
    monkeypatch.setattr(demos, "TOGETHER", 64)
    space = gym.spaces.Box(-1, 1, (2,))
    about = Observations.of(BOX), Actions.of(space), limit
    found = demos.recorded(str(tmp_path / "demos.npz"), *about)
    assert np.array_equal(found.targets, actions) and np.array_equal(found.executed, actions)


def test_an_archive_that_is_damaged_behind_its_first_rows_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "demos.npz"
    np.savez(path, observations=np.zeros((6_000, *BOX.shape), np.uint8), actions=np.zeros((6_000, 1)))
    with zipfile.ZipFile(path) as packed:
        place = packed.getinfo("observations.npy").header_offset + 2**24
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(b"!")
    with pytest.raises(UserError, match=r"demos: .* is no \.npz archive of plain arrays \(Bad CRC"):
        recorded(path, beside=False)


class Still(gym.Env):
    """The same small picture in every state."""

    observation_space = gym.spaces.Box(0, 255, (1, 16, 16), np.uint8)
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((1, 16, 16), 9, np.uint8), {}

    def step(self, action):
        return np.full((1, 16, 16), 9, np.uint8), 0.0, False, False, {}


def test_the_best_network_in_hindsight_is_searched_for_on_images_where_that_was_asked_for(capsys):
    settings = SIZE | {"rounds": 1, "episodes": 0, "max_iterations": 2, "comparator_steps": 2, "ensemble": 1}
    settings |= {"policy": "mlp", "policy_options": {"widths": (4,)}}
    found = {}
    for asked in ({}, {"comparator": "last"}):
        run = imitate(Still, expert=lambda seen: np.zeros(1, np.float32), **settings, **asked)
        tables.show(outcome(run))
        found[len(asked)] = run.certificate, float(run.ledger["comparator"][-1]), capsys.readouterr().out
    (left, value, printed), (searched, there, told) = found[0], found[1]
    assert np.isnan(left.regret) and np.isnan(value) and np.isfinite([searched.regret, there]).all()
    assert left.reason.endswith("takes longer than the training; --comparator last does it.")
    assert "not estimated: on images" in " ".join(printed.split()) and "not estimated" not in told


def test_a_linear_policy_on_many_numbers_says_before_it_begins_that_it_is_slow(monkeypatch):
    monkeypatch.setattr(imitating, "WIDE", 255)
    run = Run(Still, expert=lambda seen: np.zeros(1, np.float32), policy="linear")
    with pytest.warns(UserWarning, match="a linear policy on 256 numbers an observation is solved"):
        imitating._warn_wide(run)
