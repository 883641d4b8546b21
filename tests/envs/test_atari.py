"""Atari: the names, the settings, seeds per episode, and frames stored once but rebuilt bit for bit."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("ale_py")

from understudy import imitate
from understudy.envs import atari
from understudy.envs.gymnasium import GymnasiumVector, derive, maker, vector
from understudy.errors import MissingExtra, UserError
from understudy.samples.log import FrameColumn, distinct
from understudy.samples.records import Sums


class Games:
    """Slots of the vector environment, every episode seeded by (seed, slot, episode)."""

    def __init__(self, name: str, count: int, *, seed: int = 0, threads: int = 1, **settings):
        self.slots = vector(maker(name, settings), count, threads=threads)
        self.seed, self.all, self.episode = seed, np.arange(count), np.zeros(count, int)
        self.begin(self.all)

    def begin(self, which: np.ndarray) -> None:
        paths = [("collect", int(slot), int(self.episode[slot])) for slot in which]
        self.slots.begin(which, [derive(self.seed, *path) for path in paths])

    @property
    def observations(self) -> np.ndarray:
        return self.slots.observe(self.all).batch

    def step(self, some: np.ndarray, actions: np.ndarray):
        rewards, terminated, truncated = self.slots.step(some, actions)
        over = some[terminated | truncated]
        self.episode[over] += 1
        self.begin(over)
        return rewards, terminated, truncated


def played(games: Games, steps: int, seed: int = 0):
    """Random play: observation before each step, rewards and ends of it."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        before = games.observations
        actions = rng.integers(0, games.slots.action_space.n, len(games.all))
        yield before, actions, games.step(games.all, actions)


@pytest.mark.parametrize("name", ["Pong", "pong", "ALE/Pong-v5"])
def test_a_game_has_one_environment_whatever_its_name(name):
    made = maker(name)
    assert made.name == "ALE/Pong-v5"
    env = made()
    assert env.observation_space.shape == (4, 84, 84) and env.action_space.n == 6


def test_every_game_is_found_by_its_id_and_by_its_bare_name():
    for rom in atari.games():
        title = rom.title().replace("_", "")  # as ale_py.registration makes its ids
        assert atari.game(f"ALE/{title}-v5") == atari.game(title) == atari.game(rom) == rom
        assert atari.looks_like(title) and maker(rom).name == f"ALE/{title}-v5"
    assert maker("UpNDown")().observation_space.shape == (4, 84, 84)


def test_unknown_games_and_settings_are_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"no game 'ALE/Pongg-v5', did you mean 'pong'"):
        maker("ALE/Pongg-v5")
    with pytest.raises(UserError, match="did you mean 'Pong'"):
        maker("Pongg")()
    with pytest.raises(UserError, match="setting: unknown value 'stick', did you mean 'sticky'"):
        maker("Pong", {"stick": 0.25})
    with pytest.raises(UserError, match="sticky: 2 is not accepted"):
        maker("Pong", {"sticky": 2})


def test_without_the_extra_a_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    for name in ("Pong", "ALE/Breakout-v5"):
        with pytest.raises(MissingExtra, match=r"pip install 'understudy\[atari\]'"):
            maker(name)


def test_an_expert_for_other_actions_is_refused():
    from understudy import experts

    env = maker("Breakout")()
    with pytest.raises(UserError, match="was made for actions Discrete\\(6\\)"):
        experts.resolve("ppo-pong", observation_space=env.observation_space, action_space=env.action_space)


def test_settings_reach_the_environment():
    changed = Games("pong", 1, stack=2, size=60, full_actions=True)
    assert changed.observations.shape == (1, 2, 60, 60) and changed.slots.action_space.n == 18
    course = played(Games("pong", 1, max_frames=200), 120)
    ends = [k for k, (_, _, (_, _, cut)) in enumerate(course) if cut.any()]
    assert ends and ends[0] < 51


def test_sticky_actions_change_the_course_of_a_game():
    def course(sticky):
        games = Games("breakout", 1, seed=3, sticky=sticky, noop_max=0)
        return np.concatenate([before for before, _, _ in played(games, 60)])

    plain = course(0.0)
    assert np.array_equal(plain, course(0.0))
    assert not np.array_equal(plain, course(0.9))


@pytest.mark.slow
def test_games_side_by_side_are_the_games_alone():
    """In company or alone, the same seed and actions give the same game."""
    games = Games("pong", 3, seed=5, threads=2, max_frames=60)
    assert isinstance(games.slots, GymnasiumVector)
    rng = np.random.default_rng(0)
    single = [maker("Pong", {"max_frames": 60})() for _ in range(3)]
    episode = np.zeros(3, int)
    seen = [env.reset(seed=derive(5, "collect", i, 0))[0] for i, env in enumerate(single)]
    course, played = [], []
    for _ in range(34):
        actions = rng.integers(0, 6, 3)
        assert np.array_equal(games.observations, np.stack(seen))
        course.append(seen[0])
        played.append(actions[:1])
        # Some slots first, the others then: any choice of them is stepped.
        for some in (np.array([2, 0]), np.array([1])):
            games.step(some, actions[some])
        for i, env in enumerate(single):
            seen[i], _, terminated, truncated, _ = env.step(actions[i])
            if terminated or truncated:
                episode[i] += 1
                seen[i] = env.reset(seed=derive(5, "collect", i, int(episode[i])))[0]
    assert games.episode.min() >= 2
    games.slots.close()
    other, seen = Games("pong", 1, seed=6, max_frames=60), []  # another seed and the same actions
    for actions in played:
        seen.append(other.observations[0])
        other.step(other.all, actions)
    assert not np.array_equal(course, seen)


@pytest.mark.parametrize("game", ["pong", "breakout"])
def test_every_rebuilt_stack_is_the_environments(game, tmp_path):
    """Beginnings, ends, several slots and several rounds included; in memory and mapped from files."""
    games = Games(game, 2, seed=1, max_frames=60)
    seen = [before.copy() for before, _, _ in played(games, 50)]
    assert games.episode.min() >= 3
    whole, slots = np.concatenate(seen).reshape(100, -1), np.tile(np.arange(2), 50)
    for column in (FrameColumn((4, 84, 84), Sums(folder)) for folder in (None, tmp_path)):
        for part in (slice(0, 42), slice(42, 100)):
            column.append(whole[part], slots[part])
        assert np.array_equal(column.rows(100)[:], whole)
    assert (tmp_path / "frames.bin").stat().st_size <= (100 + 2 * 4) * 84 * 84


def test_a_stack_that_ignored_the_boundary_would_be_seen():
    """Negative control: stacks rebuilt across the ends of episodes are not the environment's."""
    games = Games("pong", 1, seed=1, max_frames=200)
    seen = np.concatenate([before.copy() for before, _, _ in played(games, 120)])
    naive = np.stack([seen[np.maximum(np.arange(i - 3, i + 1), 0), -1] for i in range(120)])
    assert not np.array_equal(naive, seen)


def test_a_thousand_interactions_fit_in_nine_megabytes(tmp_path):
    rng, empty = np.random.default_rng(0), np.zeros((3, 84, 84), np.uint8)
    frames = [np.full((84, 84), 1 + rng.integers(255), np.uint8) for _ in range(500)]
    stacks = np.lib.stride_tricks.sliding_window_view([*empty, *frames], 4, axis=0).transpose(0, 3, 1, 2)
    column = FrameColumn((4, 84, 84), Sums(tmp_path))
    for _ in range(2):  # episodes
        column.append(stacks.reshape(500, -1), np.zeros(500, int))
    assert len(column.rows(1000)) == 1000
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 9e6


def test_foreign_stacks_are_kept_too():
    """Any stacks of bytes, unrelated to each other: nothing is assumed, only saved where it can be."""
    stacks = np.random.default_rng(0).integers(0, 2, (40, 3, 2, 2), dtype=np.uint8)
    frames, index = distinct(stacks, np.zeros(40, int))
    assert np.array_equal(frames[index], stacks)


def test_labels_may_be_the_experts_mode_and_features_anothers_network():
    """`labels` changes the targets, `encoder` whose features the linear policy sees."""
    options = {"rounds": 1, "steps_per_round": 20, "episodes": 0, "expert_episodes": 0, "comparator": "none"}
    options |= {"learner": "ogd", "eta": 1.0}  # nothing is solved
    soft = imitate("Pong", policy="linear", **options)
    hard = imitate("Pong", policy="linear", label_kind="action", encoder="ppo-pong", **options)
    assert 0 < np.max(soft.samples("targets")) < 1
    np.testing.assert_array_equal(np.sort(np.unique(hard.samples("targets"))), [0.0, 1.0])
    with pytest.raises(UserError, match="label_kind"):
        imitate("Pong", policy="linear", label_kind="nobody", **options)
