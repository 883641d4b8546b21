"""Rounds that stay on the device: pure environments, a policy and an expert that JAX can trace.

Collecting a round is one compiled loop over all environments of a run, evaluating is another. What they give
is where the learner wants it; a handful of numbers comes to the host. Seeds, order of samples and rules are
those of `collect` and `evaluate`, so the same run on the host has the same numbers, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from ..envs.gymnasium import derive
from ..envs.pure import PureEnv, words
from ..errors import UserError
from ..experts import Expert
from ..parts import Parts
from ..policies import Observations, Recalled
from ..programs import apart, architecture, keys_again, kind, over_devices, plain_keys, stacked, to_one_device
from ..samples import Counts, Path
from ..student import Plan, Understudy
from ..together import Call, alone
from .collect import Tick
from .driver import drawn, noise_of
from .evaluate import Asked, Evaluation, endless
from .kit import Actor, Kit
from .world import World


def possible(env: Any, parts: Parts, expert: Expert) -> bool:
    """Whether a run can stay on the device."""
    seen = parts.observations
    traced = expert.pure is not None and expert.on_reset is None and expert.workers is None
    inner = seen.inner if isinstance(seen, Recalled) else seen
    return (
        isinstance(env, PureEnv)
        and isinstance(inner, Observations)
        and traced
        and parts.spec.moment == "after"
        and parts.demos is None
    )


@final
class DeviceCollector:
    """Rounds and evaluations of a student on the device; see `collect.Collector` and `evaluate.Arena`.

    call: how a program is called: alone, or together with those of other runs.
    """

    def __init__(self, world: World, student: Understudy, expert: Expert, call: Call = alone):
        parts = student.parts
        seen: Any = parts.observations
        burn = getattr(student.game.policy, "burn", 0)
        self.student, self.spec, self._env, self._call = student, student.spec, world.first, call
        self._seed, self._envs, self._lanes = words(student.spec.seed), parts.envs, None
        about = seen, parts.actions, expert, parts.envs, burn
        same = "kit", repr(seen.config()), parts.kind, parts.envs, burn
        if same not in world.cache:
            world.cache[same] = Kit(world.first, *about)
        self._kit: Kit = world.cache[same]
        student.on_device = True

    def collect(self, plan: Plan, tick: Tick | None = None) -> Path:
        """The path of a round, with the labels of all its states."""
        self._foresee()
        student, size = self.student, plan.size
        path = student.path(size, self._envs)
        by_expert = drawn(plan, self.spec.seed, spent=self.spec.budget is not None)
        noise = noise_of(student, plan)
        policy, params = student.acting()
        if self._lanes is None:
            self._lanes = over_devices(self._kit.first(self._seed))
        loud = None if noise is None else self._by_step(noise)
        args = self._actor(params), self._lanes, self._seed, self._by_step(by_expert), loud

        def play(many: list[Any]) -> Sequence[Any]:
            return _called(self._kit.collecting(policy, size, len(many) == 1), many)

        self._lanes, made = self._call(("collect", architecture(policy), kind(args), size), args, play)
        made = to_one_device(made)
        counts = jax.device_get(made.counts)
        if not counts["finite"]:
            raise UserError("environment: an observation or label is not finite.")
        path.inputs, path.targets, path.executed = made.inputs, made.targets, made.executed
        path.rewards, path.flags, path.row, path.by_expert = made.rewards, made.flags, size, by_expert
        path.known = Counts(float(by_expert.mean()), int(counts["handovers"]), int(counts["episodes"]))
        if tick is not None:
            tick("collecting", size, size)
        return path

    def _foresee(self) -> None:
        """Compiles the evaluations beside the first round: both hold a copy of the physics, which is what
        takes long.
        """
        student = self.student
        if self._lanes is not None or student.parts.members > 1 or self._call is not alone:
            return
        policy, args, episodes = self._playing(student, (self.spec.seed, self.spec.looks, 0), False)
        if episodes:
            self._kit.compile_aside(policy, episodes, self.spec.episode_limit, True, args)

    def _by_step(self, values: np.ndarray) -> np.ndarray:
        """What was drawn for a round (size, …), by step and environment; zeros in the end."""
        missing = [(0, -len(values) % self._envs)] + [(0, 0)] * (values.ndim - 1)
        return np.pad(values, missing).reshape(-1, self._envs, *values.shape[1:])

    def _actor(self, params: Any) -> Actor:
        # Thousands of environments act in single precision, whatever their policy is solved in.
        seen = self.student.normaliser
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
        return Actor(single, *(jnp.asarray(one, jnp.float32) for one in (seen.mean, seen.scale)))

    def of_student(self, student: Understudy, asked: Asked) -> Evaluation:
        return self._play(student, asked, False)

    def of_expert(self, asked: Asked) -> Evaluation:
        # Through the program of the policy, whose answers it does not take: a second program would take as
        # long to compile as the first.
        return self._play(self.student, asked, True)

    def _playing(self, student: Understudy, asked: Asked, expert: bool) -> tuple[Any, Any, int]:
        """The policy whose program plays these episodes, its arguments, and how many it plays: as many in
        looks as in the last evaluation, since more of them take no longer and another program would.
        """
        seed, episodes, number = asked
        policy, params = student.shown()
        args = self._actor(params), words(seed), np.bool_(expert), np.uint32(number)
        return policy, args, episodes and max(episodes, self.spec.looks, self.spec.judging)

    def _play(self, student: Understudy, asked: Asked, expert: bool) -> Evaluation:
        """Whole episodes: as `evaluate.play_episodes`, all of them side by side."""
        policy, args, most = self._playing(student, asked, expert)
        seed, episodes, number = asked
        if not episodes:
            return Evaluation(np.zeros(0), np.zeros(0, np.int64))

        def play(many: list[Any]) -> Sequence[Any]:
            return _called(self._kit.evaluating(policy, most, self.spec.episode_limit, len(many) == 1), many)

        found = self._call(("evaluate", architecture(policy), kind(args), most), args, play)
        returns, lengths, over, finite = (one[:episodes] for one in jax.device_get(found))
        if not finite.all():
            raise UserError("environment: an observation is not finite.")
        if not over.all():
            raise endless(self._env.name)
        seeds = [derive(seed, "evaluate", number, episode) for episode in range(episodes)]
        return Evaluation(returns.astype(np.float64), lengths.astype(np.int64), np.asarray(seeds))

    def snapshot(self) -> list[dict[str, Any]]:
        """Where the environments are: the arrays of their states, as one slot."""
        nothing = {"episode": -1, "actions": np.zeros(0, np.float32), "row": np.zeros(0, np.float32)}
        if self._lanes is None:
            return [nothing]
        leaves = jax.tree.leaves(jax.device_get(plain_keys(self._lanes)))
        return [nothing | {"episode": 0} | {f"lanes.{i:03d}": leaf for i, leaf in enumerate(leaves)}]

    def restore(self, snapshot: Sequence[dict[str, Any]]) -> int:
        """Back to a snapshot; nobody has to be asked anything again for it. One of other environments is
        refused, for new episodes too: they go on from it.
        """
        if not snapshot or snapshot[0]["episode"] < 0:
            return 0
        like = jax.eval_shape(self._kit.first, self._seed)
        shapes, structure = jax.tree.flatten(jax.eval_shape(plain_keys, like))
        kept: list[Any] = [snapshot[0].get(f"lanes.{i:03d}") for i in range(len(shapes))]
        if any(
            a is None or a.shape != b.shape or a.dtype != b.dtype for a, b in zip(kept, shapes, strict=True)
        ):
            raise UserError("resume: the environments of the run are not those of now; begin a new run.")
        back = jax.tree.unflatten(structure, [jnp.asarray(one) for one in kept])
        self._lanes = over_devices(keys_again(back, like))
        return 0

    def resume_anew(self, snapshot: Sequence[dict[str, Any]], found: Any) -> None:
        """On from a snapshot with new episodes in all environments."""
        self.restore(snapshot)
        if self._lanes is not None:
            self._lanes = self._kit.anew(self._lanes, self._seed)

    def close(self) -> None: ...


def _called(program: Any, many: list[Any]) -> Sequence[Any]:
    """A program of one run, or of several, with the arguments of each."""
    if len(many) == 1:
        return [program(*many[0])]
    return apart(program(*stacked(many)), len(many))
