"""Many runs of one Atari game side by side: one slot of the environment a run, one forward pass for all.

A study compares learners and seeds; their games are stepped together, their images go through the network
together, and only the solves are apart. `Lockstep` is the loop; what the policies are is up to the `Students`
it is given: linear on frozen features (`LinearStudents`, here) or NatureCNN end to end
(`pixels.PixelStudents`).
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ..data import batch
from ..envs.atari import Atari, Settings
from ..envs.gymnasium import derive
from ..experts.base import Expert
from ..experts.encoders import encoder, head
from ..learners import Learner
from ..losses import CrossEntropy
from ..objectives import empty_samples
from ..online import compiled, make_game
from ..policies import Linear
from ..solvers import Status


@dataclasses.dataclass(frozen=True)
class Member:
    """One run of the study: a learner, who acts while it learns (β = 1: the expert), and its seed."""

    name: str
    learner: Learner
    seed: int
    beta: float = 0.0
    automatic: Any = None
    """Finds the scale of a regularised learner on a network (see `automatic.Automatic`)."""


class Students(Protocol):
    """The policies of all members; slots are ordered member by member."""

    members: Sequence[Member]

    def see(self, images: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        """Outputs (slots, k) of each slot's member, the expert's logits (slots, k), and what `keep` needs."""
        ...

    def keep(self, images: np.ndarray, seen: Any, labels: np.ndarray) -> None:
        """Adds the current sample of every member's first slot, labelled (members, k)."""
        ...

    def learn(self, t: int, judge: bool) -> list[dict[str, Any]]:
        """Ends round t: a record for every member."""
        ...


def softmax(logits: np.ndarray) -> np.ndarray:
    """Rows of probabilities, in float64 and to float32."""
    e = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Played:
    """Evaluation games of one member: returns (games,), and the share of states where it agrees."""

    returns: np.ndarray
    agreement: float


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Some of the members, as they are now, for evaluation."""

    members: Sequence[Member]
    see: Callable[[Any], tuple[np.ndarray, np.ndarray, Any]]


class Lockstep:
    """Rounds of exactly `size` interactions for every member; agents sample from their policies.

    `labels`: "distribution" (the expert's, default) or "mode" (its most probable action).
    """

    def __init__(
        self,
        game: str,
        students: Students,
        *,
        size: int,
        made: Settings | None = None,
        labels: str = "distribution",
        threads: int = 0,
    ):
        self.game, self.students, self.size, self.made = game, students, size, made or Settings()
        self.labels, self.threads, self.round = labels, threads, 0
        members = students.members
        # Runs of one seed are given the same beginnings.
        seeds, same = [member.seed for member in members], [0] * len(members)
        self._games = Atari(game, len(members), seed=seeds, slots=same, made=self.made, threads=threads)
        self.cumulative = np.zeros(len(members))

    def advance(self, judge: bool = False) -> list[dict[str, Any]]:
        """Plays and learns one round; a row for every member."""
        t, members, began = self.round + 1, self.students.members, time.perf_counter()
        noise = np.stack(
            [
                np.random.default_rng(derive(member.seed, "noise", t)).gumbel(
                    size=(self.size, self._games.action_space.n)
                )
                for member in members
            ]
        )
        expert_acts = np.array([member.beta >= 1 for member in members])
        agreed, reward = np.zeros(len(members)), np.zeros(len(members))
        for i in range(self.size):
            images = self._games.observations
            outputs, logits, seen = self.students.see(images)
            chosen = logits.argmax(axis=1)
            labels = softmax(logits)
            if self.labels == "mode":
                labels = np.eye(labels.shape[1], dtype=np.float32)[chosen]
            self.students.keep(images, seen, labels)
            agreed += outputs.argmax(axis=1) == chosen
            actions = np.where(expert_acts, chosen, (outputs + noise[:, i]).argmax(axis=1))
            reward += self._games.step(actions)[0]
        collected = time.perf_counter() - began
        records = self.students.learn(t, judge)
        self.round = t
        rows = []
        for j, (member, record) in enumerate(zip(members, records, strict=True)):
            self.cumulative[j] += record["loss"]
            rows.append(
                {
                    "learner": member.name,
                    "seed": member.seed,
                    "round": t,
                    "interactions": t * self.size,
                    "queries": t * self.size,
                    "agreement": agreed[j] / self.size,
                    "average_loss": self.cumulative[j] / t,
                    "reward": reward[j],
                    "seconds_collect": collected / len(members),
                    **record,
                }
            )
        return rows

    def close(self) -> None:
        self._games.close()


def evaluate(
    game: str,
    students: Students | Chosen,
    games: int,
    *,
    seed: int,
    made: Settings | None = None,
    threads: int = 0,
    expert: bool = False,
) -> list[Played]:
    """`games` whole games of every member by its most likely actions, seeded apart from collection.

    With `expert` the expert plays in the members' stead, in the same games.
    """
    count = len(students.members)
    # Members of one seed meet the same games, those of another seed the next ones: 3 seeds of 20 are 60
    # games.
    seeds = sorted({member.seed for member in students.members})
    first = [seeds.index(member.seed) * games for member in students.members]
    arena = _Arena(game, first, games, seed=seed, made=made or Settings(), threads=threads)
    agreed, steps = np.zeros((count, games)), np.zeros((count, games))
    while not arena.over.all():
        outputs, logits, _ = students.see(arena.images)
        mine, theirs = outputs.argmax(axis=1), logits.argmax(axis=1)
        live = ~arena.over
        agreed += live * (mine == theirs).reshape(count, games)
        steps += live
        arena.step(theirs if expert else mine)
    arena.close()
    shares = agreed.sum(axis=1) / steps.sum(axis=1)
    return [Played(arena.returns[j].copy(), float(shares[j])) for j in range(count)]


class _Arena:
    """Evaluation games of all members, each until its first end."""

    def __init__(self, game: str, first: list[int], games: int, *, seed: int, made: Settings, threads: int):
        count = len(first)
        self._games = Atari(
            game,
            count * games,
            seed=seed,
            slots=[start + number for start in first for number in range(games)],
            stream="evaluate",
            made=made,
            threads=threads,
        )
        self.over = np.zeros((count, games), bool)
        self.returns = np.zeros((count, games))

    @property
    def images(self) -> np.ndarray:
        return self._games.observations

    def step(self, actions: np.ndarray) -> None:
        rewards, terminated, truncated = self._games.step(actions)
        self.returns += rewards.reshape(self.over.shape) * ~self.over
        self.over |= (terminated | truncated).reshape(self.over.shape)

    def close(self) -> None:
        self._games.close()


class LinearStudents:
    """Linear policies on frozen features of the expert's network, each solved to its optimum every round.

    The features of a sample are computed once, when its action is chosen, and kept.
    """

    def __init__(
        self, expert: Expert, members: Sequence[Member], *, capacity: int, size: int, solver: Any = "auto"
    ):
        self.members, self.size = members, size
        found = encoder(expert)
        weight, bias = head(expert)
        outputs = weight.shape[1]
        self.policy = Linear(bias=True)

        @jax.jit
        def see(frozen: Any, top: Any, params: Any, images: Any) -> Any:
            features = found.network.features(frozen, images)
            rows = jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)
            each = rows.reshape(params.shape[0], -1, rows.shape[1])
            mine = jnp.einsum("rej,rjk->rek", each, params, precision="highest")
            theirs = jnp.matmul(features, top[0], precision="highest") + top[1]
            return mine.reshape(-1, outputs), theirs, features

        self._see, self._frozen = see, jax.device_put(found.params)
        self._top = jax.device_put((weight, bias))
        self._features = np.zeros((len(members), size, found.network.width), np.float32)
        self._labels = np.zeros((len(members), size, outputs), np.float32)
        self._filled, self._games, self._states = 0, [], []
        with jax.enable_x64(True):
            params = self.policy.init(jax.random.key(0), found.network.width, outputs)
            like = batch(self._features[0], self._labels[0], dtype=np.float64)
            chunk = 2000 if jax.default_backend() == "gpu" else 1000
            for member in members:
                game = make_game(self.policy, CrossEntropy(), member.learner, solver, params)
                losses = empty_samples(self.policy, CrossEntropy(), like, capacity=capacity, chunk=chunk)
                self._games.append(game)
                self._states.append(game.init(params, losses))
        self._stack()

    def _stack(self) -> None:
        params = np.stack([np.asarray(state.learner.params, np.float32) for state in self._states])
        self._params = jax.device_put(params)

    def params(self, member: int) -> np.ndarray:
        return np.asarray(self._states[member].learner.params)

    def seen(self, params: Any, images: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        """As `see`, with these parameters (members, width, outputs)."""
        outputs, logits, features = self._see(self._frozen, self._top, params, images)
        return np.asarray(outputs), np.asarray(logits), features

    def see(self, images: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        return self.seen(self._params, images)

    def choose(self, which: Sequence[int]) -> Chosen:
        """Only these members: games of a few are over sooner than games of all."""
        params = self._params[np.asarray(which)]
        return Chosen([self.members[j] for j in which], functools.partial(self.seen, params))

    def keep(self, images: np.ndarray, seen: Any, labels: np.ndarray) -> None:
        self._features[:, self._filled] = np.asarray(seen)
        self._labels[:, self._filled] = labels
        self._filled += 1

    def learn(self, t: int, judge: bool) -> list[dict[str, Any]]:
        records = []
        for j, game in enumerate(self._games):
            began = time.perf_counter()
            with jax.enable_x64(True):
                one = batch(self._features[j], self._labels[j], dtype=np.float64)
                key = jax.random.key(derive(self.members[j].seed, "solver", t))
                self._states[j], record = compiled(game)(self._states[j], one, key, jnp.asarray(judge))
                record = jax.device_get(record)
            records.append(plain_record(record, judge) | {"seconds_solve": time.perf_counter() - began})
        self._filled = 0
        self._stack()
        return records


def plain_record(record: dict[str, Any], judge: bool) -> dict[str, Any]:
    """The numbers of a round's record that a study keeps."""
    names = ("loss", "gradient_norm", "weight", "solver_grad_norm")
    row: dict[str, Any] = {name: float(record[name]) for name in names}
    row["solver_status"] = Status(int(record["solver_status"])).name.lower()
    row["solver_iterations"] = int(record["solver_iterations"])
    for name in ("regret", "bound"):
        row[name] = float(record[name]) if judge else float("nan")
    return row
