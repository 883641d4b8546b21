"""Episodes of a run: who acted, who was asked, and exact round trips through Minari and Parquet."""

from __future__ import annotations

import dataclasses
import json
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest

import understudy
from understudy import UserError
from understudy.exports import episodes, to_lerobot
from understudy.policies import Actions, Observations
from understudy.policies.codecs import Recalled
from understudy.samples import BREAK, EXPERT, demos, lerobot


class Walk(gymnasium.Env):
    """Seven steps and it is over; ends early where the first coordinate is high."""

    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        room=gymnasium.spaces.Discrete(3, start=4),
        view=gymnasium.spaces.Box(0, 255, (2, 2), np.uint8),
    )
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def _seen(self):
        return {
            "place": self.np_random.uniform(-1, 1, 2).astype(np.float32),
            "room": int(self.np_random.integers(4, 7)),
            "view": self.np_random.integers(0, 256, (2, 2), dtype=np.uint8),
        }

    def step(self, action):
        self.time += 1
        seen = self._seen()
        return seen, float(action[0]), bool(seen["place"][0] > 0.8), self.time >= 7, {}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two environments, three rounds, five labels a round after the first, which the expert drives."""
    settings = {"rounds": 3, "steps_per_round": 20, "num_envs": 2, "policy": "linear", "episodes": 0}
    folder = tmp_path_factory.mktemp("runs") / "walk"
    return understudy.imitate(
        Walk, expert=lambda seen: seen["place"] / 2, ask="random:5", learner="ftl", out=folder, **settings
    )


def joined(parts):
    return np.concatenate([np.asarray(part) for part in parts])


def test_every_step_is_in_one_episode_as_it_was(run):
    found = list(episodes.episodes(run))
    rows = joined(one.rows for one in episodes.split(run))
    assert sorted(rows) == list(range(60)) and max(len(one) for one in found) == 7
    assert all(one.terminated or one.truncated or len(one) < 7 for one in found)
    for name, column in {"rewards": "rewards", "weights": "weights", "targets": "targets"}.items():
        assert joined(getattr(one, name) for one in found).tobytes() == run.samples(column)[rows].tobytes()
    assert (joined(one.asked for one in found) == (run.samples("weights")[rows] > 0)).all()
    by_expert = joined(one.by_expert for one in found)
    assert (by_expert == (run.samples("flags")[rows] & EXPERT > 0)).all() and 0 < by_expert.sum() < 60
    for one in found:
        seen = run.policy.observations.rows(one.observations)
        assert (one.expert_actions[one.asked] == one.observations["place"][one.asked] / 2).all()
        assert np.isnan(one.expert_actions[~one.asked]).all()
        assert seen.shape == (len(one), run.policy.observations.width)
    again = joined(run.policy.observations.rows(one.observations) for one in found)
    assert again.tobytes() == run.samples("inputs")[rows].tobytes()


def test_an_episode_ends_at_a_break_and_labels_from_before_it_are_left_out(run, monkeypatch):
    flags = np.array(run.samples("flags")[:])
    flags[20:26] = BREAK
    kept = run.samples
    monkeypatch.setattr(
        understudy.Record, "samples", lambda self, name: flags if name == "flags" else kept(name)
    )
    whole = [one.rows for one in episodes.split(run)]
    assert len(flags) - len(joined(whole)) == 6 and not set(range(20, 26)) & set(joined(whole))
    columns = {name: np.array(run.ledger[name]) for name in run.ledger}
    columns["breaks"] = np.array([0, 1, 1])
    broken = dataclasses.replace(run, ledger=understudy.Ledger(columns))
    cut = [one.rows for one in episodes.split(broken)]
    assert len(cut) > len(whole)
    assert not [part for part in cut if part[0] < 20 <= part[-1]]


def test_minari_gives_back_what_was_written(run, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    found = understudy.export(run, "minari", "walk/mine-v0")
    data = minari.load_dataset("walk/mine-v0")
    assert found.episodes == data.total_episodes
    for ours, theirs in zip(episodes.episodes(run), data.iterate_episodes(), strict=True):
        for key, part in ours.observations.items():
            assert theirs.observations[key][:-1].tobytes() == part.tobytes()
        assert theirs.actions.tobytes() == ours.actions.tobytes()
        assert theirs.rewards.tobytes() == ours.rewards.tobytes()
        infos = theirs.infos
        assert infos["expert_action"][:-1].tobytes() == ours.expert_actions.tobytes()
        assert infos["weight"][:-1].tobytes() == ours.weights.tobytes()
        assert (infos["asked"][:-1] == ours.asked).all() and (infos["by_expert"][:-1] == ours.by_expert).all()
        assert infos["known"].tolist() == [True] * len(ours) + [False]
        assert theirs.terminations[-1] == ours.terminated and theirs.truncations[-1] != ours.terminated
    with pytest.raises(UserError, match="already exists"):
        understudy.export(run, "minari", "walk/mine-v0")
    cloned = understudy.imitate(Walk, demos="minari:walk/mine-v0", learner="bc", policy="linear", episodes=0)
    assert cloned.ledger["samples"][0] == 60


def test_lerobot_s_layout_holds_every_step(run, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(to_lerobot, "DATA_SIZE", 0)  # a file for every episode
    monkeypatch.setattr(to_lerobot, "FILES_A_FOLDER", 3)
    found = understudy.export(run, "lerobot", tmp_path / "set")
    info = json.loads((tmp_path / "set/meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0" and info["splits"] == {"train": f"0:{found.episodes}"}
    assert (info["total_episodes"], info["total_frames"]) == (found.episodes, 60)
    assert info["features"]["observation.view"]["shape"] == [2, 2] and info["video_path"] is None
    files = sorted((tmp_path / "set/meta/episodes").glob("*/*.parquet"))
    rows = [row for file in files for row in parquet.read_table(file).to_pylist()]
    assert len(rows) == found.episodes and len(files) == -(-found.episodes // 3)
    assert {row["data/chunk_index"] for row in rows} == set(range(-(-found.episodes // 3)))
    index = 0
    for number, (ours, row) in enumerate(zip(episodes.episodes(run), rows, strict=True)):
        place = {"chunk_index": row["data/chunk_index"], "file_index": row["data/file_index"]}
        table = parquet.read_table(tmp_path / "set" / info["data_path"].format(**place))
        assert set(table.column_names) == set(info["features"])
        assert len(table) == len(ours) == row["length"] and row["tasks"] == [run.settings["env"]]
        columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
        assert (columns["action"] == ours.actions).all()
        assert (columns["observation.view"] == ours.observations["view"]).all()
        assert (columns["asked"] == ours.asked).all() and (columns["intervention"] == ours.by_expert).all()
        assert np.array_equal(columns["expert_action"], ours.expert_actions, equal_nan=True)
        assert columns["next.done"].tolist()[-1] == (ours.terminated or ours.truncated)
        assert columns["index"].tolist() == list(range(index, index + len(ours)))
        assert set(columns["episode_index"]) == {number}
        index += len(ours)
        assert (row["dataset_from_index"], row["dataset_to_index"]) == (index - len(ours), index)


class Seeing(Walk):
    """Pictures beside numbers, one in colour and one grey."""

    metadata: ClassVar = {"render_fps": 25}
    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        wrist=gymnasium.spaces.Box(0, 255, (17, 20, 3), np.uint8),
        grey=gymnasium.spaces.Box(0, 255, (16, 16), np.uint8),
    )
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def _seen(self):
        place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        draw = self.np_random.integers
        return {
            "place": place,
            "wrist": draw(0, 256, (17, 20, 3), dtype=np.uint8),
            "grey": draw(0, 256, (16, 16), np.uint8),
        }


@pytest.mark.parametrize("env", [Walk, Seeing])
def test_labels_come_back_from_lerobot_s_files_as_they_were(env, run, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.parquet")
    if env is Seeing:
        small = {"policy": "mlp", "policy_options": {"widths": (4,)}, "solver": "adam", "max_iterations": 2}
        settings = small | {"rounds": 2, "steps_per_round": 20, "episodes": 0, "comparator": "none"}
        run = understudy.imitate(Seeing, expert=lambda seen: seen["place"][:1], ask="random:9", **settings)
    monkeypatch.setattr(to_lerobot, "VIDEO_SIZE", 0.0016)
    understudy.export(run, "lerobot", tmp_path / "set")
    about = run.policy.observations, run.policy.actions
    rows = joined(steps.rows for steps in episodes.split(run))
    rows = rows[run.samples("weights")[rows] > 0]
    assert 0 < len(rows) < run.ledger["steps"][-1]
    for piece, held in ((lerobot.PIECE, demos.HELD), (1000, 100)):
        monkeypatch.setattr(lerobot, "PIECE", piece)
        monkeypatch.setattr(demos, "HELD", held)
        found = demos.recorded(f"lerobot:{tmp_path / 'set'}", *about)
        for name, column in {"inputs": found.inputs, "targets": found.targets}.items():
            assert column.tobytes() == run.samples(name)[rows].tobytes()
            assert isinstance(column, np.memmap) == (held == 100)
    if env is Seeing:
        files = [path.parent.parent.name for path in (tmp_path / "set").glob("videos/*/*/*.mp4")]
        assert files.count("observation.images.wrist") > files.count("observation.images.grey") > 1
    else:
        source = f"lerobot:{tmp_path / 'set'}"
        cloned = understudy.imitate(env, demos=source, learner="bc", policy="linear", episodes=0)
        assert cloned.ledger["samples"][0] == len(rows)


def test_what_is_recalled_is_of_the_episode_whatever_is_read_at_once(run, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.parquet")
    understudy.export(run, "lerobot", tmp_path / "set")
    actions, seen = run.policy.actions, Recalled(run.policy.observations, 3)
    monkeypatch.setattr(lerobot, "PIECE", 300)
    found = demos.recorded(f"lerobot:{tmp_path / 'set'}", seen, actions)
    begins = [np.arange(len(episode)) == 0 for episode in episodes.episodes(run)]
    wanted = [
        seen.along(episode.observations, begin)[episode.asked]
        for episode, begin in zip(episodes.episodes(run), begins, strict=True)
    ]
    assert found.inputs.tobytes() == joined(wanted).tobytes()
    with pytest.raises(UserError, match="it has states without a label; a policy with memory"):
        demos.recorded(f"lerobot:{tmp_path / 'set'}", Recalled(seen.inner, 1, mark=True), actions)


def test_pictures_of_any_number_take_the_memory_of_a_few(tmp_path, monkeypatch):
    """An episode of 20 MB, of which 1 MB is read at once."""
    pytest.importorskip("pyarrow.parquet")
    n, empty = 1600, np.zeros(1600, np.float32)
    pictures = np.broadcast_to((np.arange(n) % 251).astype(np.uint8)[:, None, None, None], (n, 64, 64, 3))
    episode = episodes.Episode(
        observations=pictures,
        actions=np.arange(n) % 2,
        expert_actions=np.arange(n) % 2,
        targets=np.zeros((n, 2), np.float32),
        rewards=empty,
        by_expert=empty > 0,
        asked=empty == 0,
        weights=empty,
        terminated=True,
        truncated=False,
    )
    monkeypatch.setattr(to_lerobot, "episodes", lambda run: [episode])
    to_lerobot.write(SimpleNamespace(settings={"env": "CartPole-v1", "env_kwargs": {}}), tmp_path / "set")
    space, choices = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8), gymnasium.spaces.Discrete(2)
    monkeypatch.setattr(lerobot, "PIECE", 2**20)
    monkeypatch.setattr(demos, "HELD", 2**20)
    seen, actions = Observations.of(space), Actions.of(choices)
    demos.recorded(f"lerobot:{tmp_path / 'set'}", seen, actions)  # imports, and what is made once
    tracemalloc.start()
    found = demos.recorded(f"lerobot:{tmp_path / 'set'}", seen, actions)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.inputs.nbytes > 19e6 > 6e6 > peak
    assert (found.inputs == pictures.reshape(n, -1)).all()


def test_what_is_no_dataset_is_refused_and_one_needs_the_extra(run, tmp_path, monkeypatch):
    about = run.policy.observations, run.policy.actions
    (tmp_path / "meta").mkdir()
    for info, words in (
        (None, "there is no dataset of LeRobot"),
        ("{", "it is not JSON"),
        ('{"codebase_version": "v3.0"}', "meta/info.json is damaged"),
        ('{"codebase_version": "v2.1", "features": {}, "fps": 5}', "its format is v2.1, and 3.0 is read"),
        ('{"codebase_version": "v3.0", "features": {}, "fps": 5}', "needs the extra 'tables'"),
    ):
        if info is not None:
            (tmp_path / "meta/info.json").write_text(info)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(UserError, match=words):
            demos.recorded(f"lerobot:{tmp_path}", *about)
    with pytest.raises(UserError, match="needs the extra 'tables'"):
        understudy.export(run, "lerobot", tmp_path / "set")
    assert not [path for path in tmp_path.iterdir() if path.name != "meta"]


def test_datasets_of_others_are_demonstrations_in_lerobot_s_words(run, tmp_path):
    """Without who was asked every action is the expert's; where people take over, theirs are."""
    pytest.importorskip("pyarrow.parquet")
    understudy.export(run, "lerobot", tmp_path / "set")
    about = run.policy.observations, run.policy.actions
    file = tmp_path / "set/meta/info.json"
    info = json.loads(file.read_text())
    rows = joined(steps.rows for steps in episodes.split(run))
    for gone, there in (
        ("asked", run.samples("flags")[rows] & EXPERT > 0),
        ("intervention", np.ones(60, bool)),
    ):
        del info["features"][gone]
        file.write_text(json.dumps(info))
        found = demos.recorded(f"lerobot:{tmp_path / 'set'}", *about)
        assert found.executed.tobytes() == run.samples("executed")[rows][there].tobytes()
    for change, words in (
        ({"features": {"action": info["features"]["action"]}}, "no column observation.place"),
    ):
        file.write_text(json.dumps(info | change))
        with pytest.raises(UserError, match=words):
            demos.recorded(f"lerobot:{tmp_path / 'set'}", *about)
    file.write_text(json.dumps(info))
    next((tmp_path / "set").glob("data/*/*")).write_bytes(b"PAR1")
    with pytest.raises(UserError, match="cannot be read"):
        demos.recorded(f"lerobot:{tmp_path / 'set'}", *about)


def test_what_the_expert_was_not_asked_is_in_no_statistic(tmp_path, monkeypatch):
    asked, ones = np.array([True, False, True]), np.ones(3, np.float32)
    one = episodes.Episode(
        observations=np.zeros((3, 2), np.float32),
        actions=np.array([1, 1, 0]),
        expert_actions=np.array([2, -1, 1]),
        targets=np.zeros((3, 3), np.float32),
        rewards=ones,
        by_expert=asked,
        asked=asked,
        weights=ones,
        terminated=True,
        truncated=False,
    )
    pytest.importorskip("pyarrow.parquet")
    other = dataclasses.replace(one, expert_actions=np.array([-1, -1, -1]), asked=np.zeros(3, bool))
    monkeypatch.setattr(to_lerobot, "episodes", lambda run: [other, one, other])
    run = SimpleNamespace(settings={"env": "CartPole-v1", "env_kwargs": {}})
    assert to_lerobot.write(run, tmp_path / "set") == 3
    stats = json.loads((tmp_path / "set/meta/stats.json").read_text())
    quantiles = {"q01": 1.01, "q10": 1.1, "q50": 1.5, "q90": 1.9, "q99": 1.99}
    basic = {"min": 1, "max": 2, "mean": 1.5, "std": 0.5, "count": 2}
    found = {name: value for name, [value] in stats["expert_action"].items()}
    assert found == pytest.approx(basic | quantiles)
    assert stats["action"]["count"] == [9] and stats["observation.state"]["max"] == [0, 0]


def test_statistics_of_parts_are_those_of_the_whole():
    values = np.random.default_rng(0).normal(3, 2, (50, 4))
    found = to_lerobot._statistics(values[:8])
    for part in np.split(values[8:], [9, 30]):
        found = to_lerobot._joined(found, to_lerobot._statistics(part))
    whole = to_lerobot._statistics(values)
    for name in ("min", "max", "mean", "std", "count"):
        np.testing.assert_allclose(found[name], whole[name])


def test_choices_have_minus_one_where_nobody_was_asked():
    actions = understudy.policies.Actions.of(gymnasium.spaces.Discrete(3, start=2))
    targets = np.array([[0, 1, 0], [0, 0, 0], [0.2, 0.1, 0.7]], np.float32)
    assert episodes._expert_actions(actions, targets, np.array([True, False, True])).tolist() == [3, -1, 4]


def test_a_part_of_a_vector_is_its_own_space():
    leaf = understudy.policies.codecs.Leaf(("joints",), "number", (4,), picks=(0, 2))
    seen = Observations([leaf])
    rows = seen.rows({"joints": np.arange(8.0).reshape(2, 4)})
    assert episodes.decode(seen, rows)["joints"].tolist() == [[0, 2], [4, 6]]
    assert episodes.space(seen)["joints"].shape == (2,)


def test_of_a_stack_there_is_the_last_observation():
    inner = Observations.of(gymnasium.spaces.Box(-1, 1, (2,)))
    stack = Recalled(inner, 3, mark=True)
    rows = np.arange(14.0, dtype=np.float32).reshape(2, 7)
    assert episodes.decode(stack, rows).tolist() == [[4, 5], [11, 12]]
    assert episodes.space(stack).shape == (2,)


def test_frames_a_second_are_the_environment_s():
    told = [
        to_lerobot._fps({"env": env, "env_kwargs": {}}) for env in ("CartPole-v1", "gymnasium:Acrobot-v1")
    ]
    assert (
        told == [50, 15] and to_lerobot._fps({"env": "nobody:Knows-v0", "env_kwargs": {}}) == to_lerobot.FPS
    )


def test_one_door_reads_every_kind_of_file(run, tmp_path):
    fixtures = Path(__file__).parents[1] / "fixtures" / "sb3"
    (tmp_path / "study.toml").write_text('env = "CartPole-v1"\nseeds = 2\n')
    run.policy.save(tmp_path / "alone" / "policy")
    kinds = {
        run.folder: "Record",
        run.folder / "policy.safetensors": "TrainedPolicy",
        tmp_path / "alone" / "policy": "TrainedPolicy",
        tmp_path / "alone": "TrainedPolicy",
        tmp_path / "study.toml": "Study",
        fixtures / "ppo-discrete.zip": "Expert",
    }
    assert {path: type(understudy.load(path)).__name__ for path in kinds} == kinds
    seen = Walk().observation_space.sample()
    assert (understudy.load(tmp_path / "alone")(seen) == run.policy(seen)).all()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "study.json").write_text("{}")
    for path, words in {
        tmp_path / "nobody": "there is no file or folder",
        tmp_path / "notes.txt": "is of no kind that is read here",
        tmp_path: "neither a run, a study nor a policy; it was tuned",
        fixtures / "ppo-discrete.npz": "is no exported policy",
        tmp_path / "full": "damaged",
    }.items():
        with pytest.raises(UserError, match=words):
            understudy.load(path)
