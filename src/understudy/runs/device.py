"""Rounds that stay on the device: pure environments, a policy and an expert that JAX can trace.

Collecting a round is one compiled loop over all environments of a run, evaluating is another. What they give
is where the learner wants it; a handful of numbers comes to the host. Seeds, order of samples and rules are
those of `collect` and `evaluate`, so the same run on the host has the same numbers, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import jax
import jax.numpy as jnp
import numpy as np

from ..envs.pure import PureEnv, words
from ..errors import UserError
from ..policies import Observations, Policy, Recalled
from .collected import TERMINATED, Asking, Counts, Driver, Round, Wanted
from .evaluate import Evaluation, endless
from .kit import Actor, Gathered, Kit, Lanes
from .trees import apart, architecture, keys_again, kind, over_devices, plain_keys, stacked, to_one_device

if TYPE_CHECKING:
    from .state import RunState


def possible(env: Any, parts: Any) -> bool:
    """Whether a run can stay on the device."""
    expert, seen = parts.expert, parts.observations
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
class Device:
    """The environments of n runs, `envs` each, and their evaluations: takes the place of `Host`."""

    def __init__(self, env: PureEnv, runs: Sequence[RunState], *, together: bool):
        parts = runs[0].parts
        assert isinstance(parts.observations, Observations | Recalled)  # see `possible`
        self.env, self.runs, self.together = env, runs, together
        self.envs = runs[0].plan.envs
        self.drivers = [Driver(run.spec.seed, run.resolved.noise) for run in runs]
        burn = max(getattr(run.game.policy, "burn", 0) for run in runs)
        self._kit = Kit(env, parts.observations, parts.actions, parts.expert, self.envs, burn)
        self._lanes: dict[int, Lanes] = {}
        self._widths: dict[Any, int] = {}
        for run in runs:
            run.on_device = True

    def collect(
        self, wanted: Wanted, tick: Callable[..., None] | None = None
    ) -> tuple[dict[int, Round], dict[int, UserError]]:
        """As `Host.collect`; who acts is read from the runs."""
        size, given, by_expert = wanted.size, [], {}
        self._foresee()
        for run, beta in zip(wanted.runs, wanted.betas, strict=True):
            draws, most = self.drivers[run].draws, wanted.most.get(run)
            by_expert[run], noise = draws(self._kit.actions, wanted.number, size, beta, most)
            (policy, params), seed = self.runs[run].acting(), words(self.drivers[run].seed)
            actor, lanes = self._actor(params, self.runs[run].normaliser), self._lanes.get(run)
            lanes = over_devices(self._kit.first(seed)) if lanes is None else lanes
            drawn = self._by_step(by_expert[run]), None if noise is None else self._by_step(noise)
            given.append((policy, (actor, lanes, seed, *drawn), size))
        found: dict[int, Gathered] = {}
        for group, width in self._groups(given):
            play = self._kit.collecting(given[group[0]][0], size, width == 1)
            made = play(*_filled([given[i][1] for i in group], width))
            for i, (lanes, mine) in zip(group, [made] if width == 1 else apart(made, width), strict=False):
                self._lanes[wanted.runs[i]], found[wanted.runs[i]] = lanes, to_one_device(mine)
        rounds: dict[int, Round] = {}
        errors: dict[int, UserError] = {}
        for run in wanted.runs:
            counts = jax.device_get(found[run].counts)
            if counts["finite"]:
                rounds[run] = self._round(run, size, found[run], counts, by_expert[run], wanted.asking)
            else:
                wrong = f"round {wanted.number}: environment: an observation or label is not finite."
                errors[run] = UserError(wrong)
        if tick is not None:
            tick("collecting", size, size)
        return rounds, errors

    def _foresee(self) -> None:
        """Compiles the evaluations beside the first round: both hold a copy of the physics, which is what
        takes long.
        """
        if self._lanes or max(run.resolved.ensemble for run in self.runs) > 1:
            return
        asked = [(run.spec.seed, run.spec.episodes, 0) for run in self.runs]
        for _, program, given in self._programs(asked, self.runs):
            self._kit.compile_aside(*program, given)

    def _groups(self, given: Sequence[tuple[Policy, Any, Any]]) -> list[tuple[list[int], int]]:
        """The places of those that one program plays: a policy, its arrays, and what else must agree. One by
        one where runs are not played together. Beside them how many the program plays, which stays what it
        was at first, so that it is compiled once.
        """
        found: dict[Any, list[int]] = {}
        for i, (policy, arrays, other) in enumerate(given):
            found.setdefault((architecture(policy), kind(arrays), other), []).append(i)
        groups = []
        for same, places in found.items():
            width = self._widths.setdefault(same, len(places) if self.together else 1)
            groups += [(places[i : i + width], width) for i in range(0, len(places), width)]
        return groups

    def _by_step(self, drawn: np.ndarray) -> np.ndarray:
        """What was drawn for a round (size, …), by step and environment; zeros in the end."""
        missing = [(0, -len(drawn) % self.envs)] + [(0, 0)] * (drawn.ndim - 1)
        return np.pad(drawn, missing).reshape(-1, self.envs, *drawn.shape[1:])

    def _round(
        self, run: int, size: int, made: Gathered, counts: Any, by_expert: Any, asking: Asking | None
    ) -> Round:
        weights, labels = np.full(size, 1.0 / size), made.targets
        if asking is not None:
            ends = np.asarray(made.flags) & TERMINATED > 0
            weights = asking(run, np.asarray(made.inputs), ~by_expert, ends)
            labels = labels * jnp.asarray(weights > 0)[:, None]
        return Round(
            made.inputs,
            labels,
            made.executed,
            made.rewards,
            made.flags,
            slots=(np.arange(size) % self.envs).astype(np.int32),
            weights=weights,
            queries=int(np.count_nonzero(weights)),
            counted=Counts(float(by_expert.mean()), int(counts["handovers"]), int(counts["episodes"])),
        )

    def _actor(self, params: Any, normaliser: Any) -> Actor:
        # Thousands of environments act in single precision, whatever their policy is solved in.
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
        return Actor(single, *(jnp.asarray(one, jnp.float32) for one in (normaliser.mean, normaliser.scale)))

    def of_runs(self, chosen: Sequence[int], t: int) -> list[Evaluation | UserError]:
        """As `Host.of_runs`."""
        runs = [self.runs[i] for i in chosen]
        return self._play([(run.spec.seed, run.spec.episodes, t) for run in runs], runs)

    def of_expert(self, asked: Sequence[tuple[int, int, int]]) -> list[Evaluation | UserError]:
        """As `Host.of_expert`."""
        return self._play(asked, [None] * len(asked))

    def _play(
        self, asked: Sequence[tuple[int, int, int]], players: Sequence[RunState | None]
    ) -> list[Evaluation | UserError]:
        """Whole episodes of runs, or of the expert (None): as `evaluate.play_episodes`, with all episodes of
        all players side by side.
        """
        found: list[Evaluation | UserError] = [Evaluation(np.zeros(0), np.zeros(0, np.int64))] * len(players)
        for group, program, given in self._programs(asked, players):
            results, alone = jax.device_get(self._kit.evaluating(*program)(*given)), program[-1]
            for at, i in enumerate(group):
                found[i] = self._evaluation(*(results if alone else (one[at] for one in results)))
        return found

    def _programs(
        self, asked: Sequence[tuple[int, int, int]], players: Sequence[RunState | None]
    ) -> Iterator[tuple[list[int], tuple[Policy, int, int | None, bool], Any]]:
        """What plays these episodes (seed, how many, number): the places of the players, what selects their
        program, and its arguments. The expert plays through the program of a policy, whose answers it does
        not take: a second program would take as long to compile as the first.
        """
        made, limit = [], self.runs[0].spec.episode_limit
        for (seed, episodes, number), player in zip(asked, players, strict=True):
            run = self.runs[0] if player is None else player
            policy, params = run.shown()
            actor = self._actor(params, run.normaliser)
            made.append((policy, (actor, words(seed), np.bool_(player is None), np.uint32(number)), episodes))
        for group, width in self._groups(made):
            policy, _, episodes = made[group[0]]
            if episodes:
                given = _filled([made[i][1] for i in group], width)
                yield group, (policy, episodes, limit, width == 1), given

    def _evaluation(self, returns: Any, lengths: Any, over: Any, finite: Any) -> Evaluation | UserError:
        if not finite.all():
            return UserError("environment: an observation is not finite.")
        if not over.all():
            return endless(self.env.name)
        return Evaluation(returns.astype(np.float64), lengths.astype(np.int64))

    def snapshot(self, run: int) -> list[dict[str, Any]]:
        """Where the environments of a run are: the arrays of their states, as one slot."""
        nothing = {"episode": -1, "actions": np.zeros(0, np.float32), "row": np.zeros(0, np.float32)}
        if run not in self._lanes:
            return [nothing]
        leaves = jax.tree.leaves(jax.device_get(plain_keys(self._lanes[run])))
        return [nothing | {"episode": 0} | {f"lanes.{i:03d}": leaf for i, leaf in enumerate(leaves)}]

    def restore(self, run: int, snapshot: list[dict[str, Any]]) -> int:
        """Back to a snapshot; nobody has to be asked anything again for it. One of other environments is
        refused, for new episodes too: they go on from it.
        """
        if not snapshot or snapshot[0]["episode"] < 0:
            return 0
        seed = words(self.drivers[run].seed)
        like = jax.eval_shape(self._kit.first, seed)
        shapes, structure = jax.tree.flatten(jax.eval_shape(plain_keys, like))
        kept = [snapshot[0].get(f"lanes.{i:03d}") for i in range(len(shapes))]
        if any(
            a is None or a.shape != b.shape or a.dtype != b.dtype for a, b in zip(kept, shapes, strict=True)
        ):
            raise UserError("resume: the environments of the run are not those of now; begin a new run.")
        back = jax.tree.unflatten(structure, [jnp.asarray(one) for one in kept])
        self._lanes[run] = over_devices(keys_again(back, like))
        return 0

    def resume_anew(self, run: int, snapshot: list[dict[str, Any]], found: Any) -> None:
        """On from a snapshot with new episodes in all environments."""
        self.restore(run, snapshot)
        if run in self._lanes:
            self._lanes[run] = self._kit.anew(self._lanes[run], words(self.drivers[run].seed))

    def close(self) -> None:
        self.env.close()


def _filled(each: Sequence[Any], width: int) -> Any:
    """The arrays of so many, stacked, the last of them copies of the first; of one alone as they are."""
    return each[0] if width == 1 else stacked([*each, *[each[0]] * (width - len(each))])
