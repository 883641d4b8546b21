"""The package `lerobot` reads what runs are exported to, and runs learn from what it writes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import understudy
from understudy.exports import episodes, to_lerobot
from understudy.policies import Actions, Observations
from understudy.samples.demos import recorded

pytestmark = pytest.mark.lerobot


@pytest.fixture(scope="session")
def package():
    """LeRobot's datasets. Torchvision, which they import for a conversion of pictures, comes without its
    compiled operators where its build is another than PyTorch's; then it only wants their names.
    """
    torch = pytest.importorskip("torch")
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from lerobot.datasets import aggregate, lerobot_dataset

    return SimpleNamespace(Dataset=lerobot_dataset.LeRobotDataset, merge=aggregate.aggregate_datasets)


class Reach(gymnasium.Env):
    """Pictures in colour and grey beside numbers, a choice and a matrix."""

    metadata: ClassVar = {"render_fps": 25}
    observation_space = spaces.Dict(
        place=spaces.Box(-1, 1, (2,), np.float32),
        grid=spaces.Box(0, 255, (2, 3), np.uint8),
        mode=spaces.Discrete(3, start=1),
        wrist=spaces.Box(0, 255, (18, 21, 3), np.uint8),
        grey=spaces.Box(0, 255, (16, 16, 1), np.uint8),
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample(), float(action[0]), False, self.time >= 7, {}


@pytest.fixture(scope="module")
def run():
    small = {"policy": "mlp", "policy_options": {"widths": (4,)}, "solver": "adam", "max_iterations": 2}
    settings = small | {"rounds": 2, "steps_per_round": 20, "episodes": 0, "comparator": "none"}
    return understudy.imitate(Reach, expert=lambda seen: seen["place"] / 2, ask="random:9", **settings)


def test_lerobot_reads_what_a_run_was_exported_to(package, run, tmp_path, monkeypatch):
    monkeypatch.setattr(to_lerobot, "DATA_SIZE", 0.001)
    monkeypatch.setattr(to_lerobot, "VIDEO_SIZE", 0.002)  # several files of both
    understudy.export(run, "lerobot", tmp_path / "set")
    data = package.Dataset("me/set", root=tmp_path / "set", video_backend="pyav")
    files = [path.suffix for path in (tmp_path / "set").rglob("file-*")]
    assert files.count(".parquet") > 2 and files.count(".mp4") > 2
    assert data.fps == 25 and data.meta.stats["action"]["count"] == [40] and len(data) == 40
    index = 0
    for number, ours in enumerate(episodes.episodes(run)):
        for step in range(len(ours)):
            item, index = data[index], index + 1
            seen = {key: part[step] for key, part in ours.observations.items()}
            for key in ("place", "grid", "mode"):
                assert (item[f"observation.{key}"].numpy() == seen[key]).all()
            for key in ("wrist", "grey"):
                picture = np.rint(item[f"observation.images.{key}"].numpy() * 255).transpose(1, 2, 0)
                assert (picture == np.broadcast_to(seen[key], picture.shape)).all()
            assert (item["action"].numpy() == ours.actions[step]).all()
            assert np.array_equal(item["expert_action"].numpy(), ours.expert_actions[step], equal_nan=True)
            assert item["asked"] == ours.asked[step] and item["intervention"] == ours.by_expert[step]
            assert (item["episode_index"], item["frame_index"]) == (number, step)
            assert item["next.reward"] == ours.rewards[step] and item["task"] == run.settings["env"]
    part = package.Dataset("me/set", root=tmp_path / "set", episodes=[2], video_backend="pyav")
    assert len(part) == len(list(episodes.episodes(run))[2])
    near = {"observation.images.wrist": [-0.04, 0], "action": [0, 0.04]}
    window = package.Dataset("me/set", root=tmp_path / "set", delta_timestamps=near, video_backend="pyav")[1]
    assert window["observation.images.wrist"].shape == (2, 3, 18, 21) and window["action"].shape == (2, 2)


def test_lerobot_merges_them(package, run, tmp_path):
    """Its statistics are joined there too, where it is strict about their shapes."""
    for name in "ab":
        understudy.export(run, "lerobot", tmp_path / name)
    roots = [tmp_path / "a", tmp_path / "b"]
    package.merge(["me/a", "me/b"], "me/both", roots=roots, aggr_root=tmp_path / "both")
    both = package.Dataset("me/both", root=tmp_path / "both", video_backend="pyav")
    assert len(both) == 80 and both.meta.stats["action"]["count"] == [80]
    about = run.policy.observations, run.policy.actions
    once, twice = (recorded(f"lerobot:{tmp_path / name}", *about) for name in ("a", "both"))
    assert twice.inputs.tobytes() == 2 * once.inputs.tobytes()


@pytest.mark.parametrize("kind", ["video", "image"])
@pytest.mark.parametrize("people", [False, True])
def test_runs_learn_from_what_lerobot_wrote(package, tmp_path, kind, people):
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
        "observation.images.top": {
            "dtype": kind,
            "shape": (32, 48, 3),
            "names": ["height", "width", "channels"],
        },
        "action": {"dtype": "float32", "shape": (2,), "names": ["a", "b"]},
    }
    if people:
        features["intervention"] = {"dtype": "bool", "shape": (1,), "names": None}
    root, rng, frames = tmp_path / "set", np.random.default_rng(0), []
    data = package.Dataset.create("me/set", fps=10, features=features, root=root, use_videos=kind == "video")
    for length in (5, 9, 4):
        for step in range(length):
            picture = np.full((32, 48, 3), 20 * step, np.uint8)
            frame = {"observation.images.top": picture, "action": rng.uniform(-1, 1, 2).astype(np.float32)}
            frame |= {"observation.state": rng.standard_normal(3).astype(np.float32)}
            frame |= {"intervention": np.array([step > 2])} if people else {}
            frames.append(dict(frame))
            data.add_frame(frame | {"task": "reach"})
        data.save_episode()
    data.finalize()
    space = spaces.Dict(state=spaces.Box(-9, 9, (3,)), top=spaces.Box(0, 255, (32, 48, 3), np.uint8))
    env = SimpleNamespace(observation_space=space, action_space=spaces.Box(-1, 1, (2,)))
    seen = Observations.of(space)
    found = recorded(f"lerobot:{root}", seen, Actions.of(env.action_space))
    wanted = [frame for frame in frames if not people or frame["intervention"][0]]
    assert len(found) == len(wanted) == (9 if people else 18)
    assert (found.targets == np.stack([frame["action"] for frame in wanted])).all()
    rows = np.asarray(found.inputs)
    assert (rows[:, :3] == np.stack([frame["observation.state"] for frame in wanted])).all()
    pictures = np.stack([frame["observation.images.top"].reshape(-1) / 255 for frame in wanted])
    loss = 0.02 if kind == "video" else 1e-6  # its codec loses a little
    assert np.abs(rows[:, 3:] - pictures).max() <= loss
