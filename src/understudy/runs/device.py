"""Rounds that stay on the device: pure environments, a policy and an expert that JAX can trace.

Collecting a round is one compiled loop over all environments of a run, evaluating is another. What they give
is where the learner wants it; a handful of numbers comes to the host. Seeds, order of samples and rules are
those of `collect` and `evaluate`, so the same run on the host has the same numbers, up to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..envs.pure import PureEnv, State, chosen, derived, key_of, words
from ..errors import UserError
from ..policies import Observations, Policy
from ..policies.traced import plays, rows, targets
from .collected import EXPERT, TERMINATED, TRUNCATED, Counts, Driver, Round
from .evaluate import LIMIT, Evaluation
from .keys import keys_again, plain_keys
from .spread import over_devices, to_one_device

if TYPE_CHECKING:
    from .collect import Asking
    from .state import RunState


class Lanes(NamedTuple):
    """The environments of a run: their states, and the number of the episode under way in each."""

    state: State
    episode: Array


class Actor(NamedTuple):
    """A policy's numbers: parameters, and the shift and scale of its inputs."""

    params: Any
    mean: Array
    scale: Array


class Gathered(NamedTuple):
    """A round on the device: the columns of `Round`, (steps, envs, …), and what comes to the host of it."""

    inputs: Array
    targets: Array
    executed: Array
    rewards: Array
    flags: Array
    counts: Any


def possible(env: Any, parts: Any) -> bool:
    """Whether a run can stay on the device."""
    expert, seen = parts.expert, parts.observations
    traced = expert.pure is not None and expert.on_reset is None and expert.workers is None
    return (
        isinstance(env, PureEnv)
        and isinstance(seen, Observations)
        and traced
        and parts.spec.moment == "after"
        and parts.demos is None
    )


@final
class Device:
    """The environments of n runs, `envs` each, and their evaluations: takes the place of `Collector`."""

    def __init__(
        self,
        env: PureEnv,
        runs: Sequence[RunState],
        drivers: Sequence[Driver],
        envs: int,
        *,
        together: bool,
    ):
        parts = runs[0].parts
        self.env, self.runs, self.drivers, self.envs, self.together = env, runs, drivers, envs, together
        self._kit = _Kit(env, parts.observations, parts.actions, parts.expert)
        self._lanes: dict[int, Lanes] = {}

    def collect(
        self,
        runs: Sequence[int],
        size: int,
        *,
        betas: Sequence[float],
        number: int,
        acting: Any = None,
        asking: Asking | None = None,
        gates: Any = None,
        most: Mapping[int, int] | None = None,
        tick: Callable[..., None] | None = None,
    ) -> tuple[dict[int, Round], dict[int, UserError]]:
        """As `Collector.collect`."""
        draws = {
            run: self._draws(run, size, beta, number, None if most is None else most[run])
            for run, beta in zip(runs, betas, strict=True)
        }
        found: dict[int, Gathered] = {}
        for group in self._alike(runs, draws):
            found |= self._gather(group, size, draws)
        rounds: dict[int, Round] = {}
        errors: dict[int, UserError] = {}
        for run in runs:
            made, counts = found[run], jax.device_get(found[run].counts)
            if not counts["finite"]:
                errors[run] = UserError(
                    f"round {number}: environment: an observation or label is not finite."
                )
                continue
            rounds[run] = self._round(run, size, made, counts, draws[run][0], asking)
        if tick is not None:
            tick("collecting", size, size)
        return rounds, errors

    def _draws(self, run: int, size: int, beta: float, number: int, most: int | None) -> tuple[Any, Any]:
        """Where the expert acts (size,), and the noise (size, k) or None."""
        driver = self.drivers[run]
        if beta in (0.0, 1.0) and not driver.noise:  # nothing is drawn
            by_expert, noise = np.full(size, beta == 1.0), None
        else:
            by_expert, noise = driver.draws(self._kit.actions, number, size, beta)
        if most is not None:
            by_expert = by_expert & (np.cumsum(by_expert) <= most)
        return by_expert, noise

    def _alike(self, runs: Sequence[int], draws: Mapping[int, Any]) -> list[list[int]]:
        """The runs whose policies one program plays: one by one where they are not played together."""
        if not self.together:
            return [[run] for run in runs]
        found: dict[Any, list[int]] = {}
        for run in runs:
            policy, noisy = self.runs[run].game.policy, draws[run][1] is not None
            leaves, structure = jax.tree.flatten((policy, self.runs[run].params))
            key = (
                structure,
                tuple(np.shape(leaf) for leaf in leaves),
                noisy,
                len(words(self.drivers[run].seed)),
            )
            found.setdefault(key, []).append(run)
        return list(found.values())

    def _gather(self, group: list[int], size: int, draws: Mapping[int, Any]) -> dict[int, Gathered]:
        policy, e = self.runs[group[0]].game.policy, self.envs
        steps = -(-size // e)

        def by_step(drawn: np.ndarray) -> np.ndarray:
            full = np.zeros((steps * e, *drawn.shape[1:]), drawn.dtype)
            full[:size] = drawn
            return full.reshape(steps, e, *drawn.shape[1:])

        each = []
        for run in group:
            by_expert, noise = draws[run]
            seed, lanes = words(self.drivers[run].seed), self._lanes.get(run)
            lanes = over_devices(self._kit.first(e)(seed)) if lanes is None else lanes
            actor = self._actor(policy, self.runs[run].params, self.runs[run].normaliser)
            one = actor, lanes, seed, by_step(by_expert), None if noise is None else by_step(noise)
            each.append(one)
        alone = len(group) == 1
        play = self._kit.collecting(policy, e, size, alone)
        given = each[0] if alone else jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
        lanes, made = play(*given)
        found = {}
        for at, run in enumerate(group):
            mine = (lanes, made) if alone else jax.tree.map(lambda leaf, i=at: leaf[i], (lanes, made))
            self._lanes[run], found[run] = mine[0], to_one_device(mine[1])
        return found

    def _round(
        self, run: int, size: int, made: Gathered, counts: Any, by_expert: Any, asking: Asking | None
    ) -> Round:
        weights, labels = np.full(size, 1.0 / size), made.targets
        if asking is not None:
            weights = asking(run, np.asarray(made.inputs), ~by_expert)
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
            counts=Counts(int(counts["episodes"]), float(by_expert.mean()), int(counts["handovers"])),
        )

    def _actor(self, policy: Policy, params: Any, normaliser: Any) -> Actor:
        # Thousands of environments act in single precision, whatever their policy is solved in.
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
        return Actor(single, *(jnp.asarray(one, jnp.float32) for one in (normaliser.mean, normaliser.scale)))

    def evaluate(
        self, seeds: Sequence[int], episodes: Sequence[int], number: int, players: Sequence[Any], limit: Any
    ) -> list[Evaluation | UserError]:
        """Whole episodes of players: (policy, params, normaliser), or None for the expert. As
        `evaluate.play_episodes`, with all episodes of a player side by side.
        """
        found: list[Evaluation | UserError] = []
        for seed, many, player in zip(seeds, episodes, players, strict=True):
            policy, actor = (None, None) if player is None else (player[0], self._actor(*player))
            if not many:
                found.append(Evaluation(np.zeros(0), np.zeros(0, np.int64)))
                continue
            play = self._kit.evaluating(policy, many, limit)
            returns, lengths, over, finite = jax.device_get(play(actor, words(seed), np.uint32(number)))
            if not finite.all():
                found.append(UserError("environment: an observation is not finite."))
            elif not over.all():
                found.append(
                    UserError(
                        f"env: an evaluation episode of {self.env.name} has lasted {LIMIT} steps and the "
                        "environment has no limit; give one with episode_limit, as in --episode-limit 1000."
                    )
                )
            else:
                found.append(Evaluation(returns.astype(np.float64), lengths.astype(np.int64)))
        return found

    def snapshot(self, run: int) -> list[dict[str, Any]]:
        """Where the environments of a run are: the arrays of their states, as one slot."""
        nothing = {"episode": -1, "actions": np.zeros(0, np.float32), "row": np.zeros(0, np.float32)}
        if run not in self._lanes:
            return [nothing]
        leaves = jax.tree.leaves(jax.device_get(plain_keys(self._lanes[run])))
        return [nothing | {"episode": 0} | {f"lanes.{i:03d}": leaf for i, leaf in enumerate(leaves)}]

    def restore(self, run: int, snapshot: list[dict[str, Any]]) -> int:
        """Back to a snapshot; nobody has to be asked anything again for it."""
        if not snapshot or snapshot[0]["episode"] < 0:
            return 0
        seed = words(self.drivers[run].seed)
        like = jax.eval_shape(self._kit.first(self.envs), seed)
        shapes, structure = jax.tree.flatten(jax.eval_shape(plain_keys, like))
        kept = [snapshot[0].get(f"lanes.{i:03d}") for i in range(len(shapes))]
        if any(
            a is None or a.shape != b.shape or a.dtype != b.dtype for a, b in zip(kept, shapes, strict=True)
        ):
            raise UserError(
                "resume: the environments of the run are not those of now; --resume=new-episode goes on with "
                "new episodes."
            )
        back = jax.tree.unflatten(structure, [jnp.asarray(one) for one in kept])
        self._lanes[run] = over_devices(keys_again(back, like))
        return 0

    def resume_anew(self, run: int, snapshot: list[dict[str, Any]], found: Any) -> None:
        """On from a snapshot with new episodes in all environments."""
        self.restore(run, snapshot)
        if run in self._lanes:
            anew = self._kit.anew(self.envs)
            self._lanes[run] = anew(self._lanes[run], words(self.drivers[run].seed))

    def close(self) -> None:
        self.env.close()


class _Kit:
    """What the programs are made of, and the programs, each made once."""

    def __init__(self, env: PureEnv, observations: Observations, actions: Any, expert: Any):
        self.env, self.seen, self.actions, self.expert = env, observations, actions, expert
        self._made: dict[Any, Any] = {}

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def first(self, e: int) -> Any:
        """From a seed to the lanes of its first episodes."""

        def first(seed: Array) -> Lanes:
            episode = jnp.zeros(e, jnp.int32)
            return Lanes(self._begun(seed, episode), episode)

        return self._once(("first", e), lambda: jax.jit(first))

    def anew(self, e: int) -> Any:
        def anew(lanes: Lanes, seed: Array) -> Lanes:
            return Lanes(self._begun(seed, lanes.episode + 1), lanes.episode + 1)

        return self._once(("anew", e), lambda: jax.jit(anew))

    def _begun(self, seed: Array, episode: Array) -> State:
        seeds = derived(seed, "collect", jnp.arange(len(episode)), episode)
        return jax.vmap(lambda one: self.env.reset(key_of(one)))(seeds)

    def outputs(self, policy: Policy, actor: Actor, inputs: Array) -> Array:
        if inputs.dtype.kind == "f":
            inputs = (inputs - actor.mean) / actor.scale
        return policy.apply(actor.params, inputs)

    def taught(self, observation: Any) -> tuple[Array, Array]:
        """The expert's target rows, and the actions behind them: of a distribution its mode."""
        assert self.expert.pure is not None
        labels = self.expert.pure(observation)
        if self.expert.kind == "distribution":
            return targets(self.actions, labels, "distribution"), plays(self.actions, labels)
        wanted = targets(self.actions, labels, "action")
        kind = jnp.int32 if self.actions.categorical else jnp.float32
        return wanted, labels.astype(kind).reshape(len(labels), *self.actions.shape)

    def collecting(self, policy: Policy, e: int, size: int, alone: bool) -> Any:
        """The program of a round: of one run, or of a stack of runs."""
        leaves, structure = jax.tree.flatten(policy)
        key = "collect", structure, tuple(map(id, leaves)), e, size, alone
        one = functools.partial(self._collect, policy, e, size)
        return self._once(key, lambda: jax.jit(one if alone else jax.vmap(one), donate_argnums=1))

    def _collect(
        self,
        policy: Policy,
        e: int,
        size: int,
        actor: Actor,
        lanes: Lanes,
        seed: Array,
        by_expert: Array,
        noise: Any,
    ) -> tuple[Lanes, Gathered]:
        steps, rest = by_expert.shape[0], size % e

        def turn(lanes: Lanes, given: Any) -> tuple[Lanes, Any]:
            number, driven, loud = given
            inputs = rows(self.seen, lanes.state.observation)
            wanted, shown = self.taught(lanes.state.observation)
            outputs = self.outputs(policy, actor, inputs)
            played = plays(self.actions, outputs if loud is None else outputs + loud)
            action = chosen(driven, shown, played)
            new = jax.vmap(self.env.step)(lanes.state, action)
            flags = TERMINATED * new.terminated + TRUNCATED * new.truncated + EXPERT * driven
            ended = new.terminated | new.truncated
            episode = lanes.episode + ended
            reset = functools.partial(self._begun, seed, episode)
            state = jax.lax.cond(ended.any(), lambda: chosen(ended, reset(), new), lambda: new)
            after = Lanes(state, episode)
            if rest:  # the last step of a round may be played in some of the slots only
                live = (number < steps - 1) | (jnp.arange(e) < rest)
                after = chosen(live, after, lanes)
            sound = jnp.isfinite(inputs).all() if inputs.dtype.kind == "f" else True
            made = inputs, wanted, action.reshape(e, -1), new.reward, flags.astype(jnp.uint8)
            return after, (made, sound & jnp.isfinite(wanted).all())

        lanes, (made, sound) = jax.lax.scan(turn, lanes, (jnp.arange(steps), by_expert, noise))
        flags = made[4]
        live = (jnp.arange(steps * e) < size).reshape(steps, e)
        ended, acts = (flags & (TERMINATED | TRUNCATED) > 0) & live, (flags & EXPERT > 0) & live
        counts = {
            "episodes": ended.sum(),
            "handovers": (acts[1:] & ~acts[:-1] & ~ended[:-1]).sum(),
            "finite": sound.all(),
        }
        columns = (leaf.reshape(steps * e, *leaf.shape[2:])[:size] for leaf in made)
        return lanes, Gathered(*columns, counts)

    def evaluating(self, policy: Policy | None, episodes: int, limit: int | None) -> Any:
        """The program of an evaluation: returns, lengths, whether each episode ended and was finite."""
        leaves, structure = jax.tree.flatten(policy)
        key = "evaluate", structure, tuple(map(id, leaves)), episodes, limit
        return self._once(key, lambda: jax.jit(functools.partial(self._evaluate, policy, episodes, limit)))

    def _evaluate(
        self, policy: Policy | None, episodes: int, limit: int | None, actor: Any, seed: Array, number: Array
    ) -> tuple[Array, Array, Array, Array]:
        seeds = derived(seed, "evaluate", number, jnp.arange(episodes))
        state = jax.vmap(lambda one: self.env.reset(key_of(one)))(seeds)
        zero, yes = jnp.zeros(episodes), jnp.ones(episodes, bool)

        def going(carry: Any) -> Array:
            _, _, lengths, live, sound = carry
            return (live & sound).any() & (lengths.max() < LIMIT)

        def turn(carry: Any) -> Any:
            state, returns, lengths, live, sound = carry
            inputs = rows(self.seen, state.observation)
            if policy is None:
                action = self.taught(state.observation)[1]
            else:
                action = plays(self.actions, self.outputs(policy, actor, inputs))
            if inputs.dtype.kind == "f":
                sound &= jnp.isfinite(inputs).all(axis=1) | ~live
            new = jax.vmap(self.env.step)(state, action)
            returns, lengths = returns + live * new.reward, lengths + live
            over = new.terminated | new.truncated
            over = over if limit is None else over | (lengths >= limit)
            return new, returns, lengths, live & ~over, sound

        first = state, zero, jnp.zeros(episodes, jnp.int32), yes, yes
        _, returns, lengths, live, sound = jax.lax.while_loop(going, turn, first)
        return returns, lengths, ~live, sound
