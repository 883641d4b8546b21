"""Rounds that stay on the device: pure environments, a policy and an expert that JAX can trace.

Collecting a round is one compiled loop over all environments of a run, evaluating is another. What they give
is where the learner wants it; a handful of numbers comes to the host. Seeds, order of samples and rules are
those of `collect` and `evaluate`, so the same run on the host has the same numbers, up to rounding.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX says little of the types of its trees.

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..envs.gymnasium import derive
from ..envs.pure import PureEnv, State, chosen, derived, key_of, words
from ..errors import UserError
from ..experts import Expert
from ..parts import Parts
from ..policies import Actions, Guest, Observations, Params, Policy, Recalled
from ..programs import apart, architecture, keys_again, kind, over_devices, plain_keys, stacked, to_one_device
from ..progress import COLLECTING
from ..samples import EXPERT, TERMINATED, TRUNCATED, Counts, Path
from ..student import Plan, Understudy
from ..together import Call, call_alone
from .collect import Slot, Tick, draw_expert_steps, draw_noise
from .evaluate import STEP_LIMIT, EpisodeSet, Evaluation, endless
from .world import World

POLICY, TAUGHT, RANDOM = range(3)
"""Who plays an evaluation."""

if TYPE_CHECKING:
    from ..nested import Nested
    from .journal import Kept

R = TypeVar("R")


def possible(parts: Parts, expert: Expert) -> bool:
    """Whether a run in a pure environment can stay on the device."""
    seen = parts.observations
    traced = expert.pure is not None and expert.on_reset is None and expert.workers is None
    traced = traced and not isinstance(parts.game.policy, Guest)
    inner = seen.inner if isinstance(seen, Recalled) else seen
    return isinstance(inner, Observations) and traced and parts.spec.moment == "after" and parts.demos is None


class Past(NamedTuple):
    """What was seen in the episodes under way: what `Recalled.join` needs, whether the next row begins an
    episode, and the last rows, which warm the memory of a policy: (e, burn, width).
    """

    rows: Array
    fresh: Array
    kept: Array


class Lanes(NamedTuple):
    """The environments of a run: their states, the number of the episode under way in each, and its past
    where a policy sees one.
    """

    state: State
    episode: Array
    past: Past | None


class ActorArrays(NamedTuple):
    """A policy's numbers: parameters, and the shift and scale of its inputs."""

    params: Params
    mean: Array
    scale: Array


Arguments = tuple[ActorArrays | Lanes | Array | np.ndarray | np.generic | None, ...]
"""What a program of one run takes."""


class Gathered(NamedTuple):
    """A round on the device: the columns of `Round`, (steps, envs, …), and what comes to the host of it."""

    inputs: Array
    targets: Array
    executed: Array
    rewards: Array
    flags: Array
    counts: dict[str, Array]


Played = tuple[Array, Array, Array, Array]
"""Returns and lengths of episodes, and which have ended and were finite."""
Playing = tuple[State, Array, Array, Array, Array, Past | None, Array]
"""Episodes under way: their states, returns and lengths, which go on and are finite, past and memory."""
Given = tuple[ActorArrays, np.ndarray, np.signedinteger, np.unsignedinteger]
"""What an evaluation takes: who acts, the seed, who plays, the number of the evaluation."""


@final
class Kit:
    """What the programs are made of, and the programs, each made once."""

    def __init__(
        self,
        env: PureEnv,
        seen: Observations | Recalled,
        actions: Actions,
        expert: Expert,
        envs: int,
        burn: int,
        stagger: bool,
    ):
        self.seen = seen
        self.actions, self.expert, self.envs, self.burn = actions, expert, envs, burn
        self._made: dict[Hashable, Callable[..., Any]] = {}
        # Compiled functions inside of programs are traced once for all of them; physics takes long to trace.
        self._step = jax.vmap(jax.jit(env.step))
        self._reset = jax.vmap(jax.jit(lambda s: env.reset(key_of(s))))
        self._ages = env.ages if stagger else None
        self.first, self.anew = jax.jit(self._first), jax.jit(self._anew)

    def _nothing(self, e: int, burn: int) -> Past | None:
        """The past of episodes that begin."""
        if not isinstance(self.seen, Recalled):
            return None
        rows = jnp.zeros((e, self.seen.depth - 1, self.seen.inner.width))
        return Past(rows, jnp.ones(e, bool), jnp.zeros((e, burn, self.seen.width)))

    def _rows(self, observation: Nested, past: Past | None) -> Array:
        """What a policy sees, (e, width)."""
        seen = self.seen.inner if isinstance(self.seen, Recalled) else self.seen
        now: Any = seen.rows(observation)  # of JAX: this is inside a program
        if not isinstance(self.seen, Recalled):
            return now
        assert past is not None  # see `_nothing`
        return self.seen.join(now, past.rows, past.fresh)

    def _later(self, past: Past | None, inputs: Array, ended: Array) -> Past | None:
        """The past in the step after these rows."""
        if past is None or not isinstance(self.seen, Recalled):
            return None
        burn = past.kept.shape[1]
        last = jnp.concatenate([past.kept, inputs[:, None]], axis=1)[:, 1:] if burn else past.kept
        return Past(self.seen.past(inputs), ended, last)

    def _first(self, seed: Array) -> Lanes:
        """From a seed to the lanes of its first episodes."""
        episode = jnp.zeros(self.envs, jnp.int32)
        state = self._begun(seed, episode)
        if self._ages is not None:
            state = state._replace(steps=self._ages(seed, jnp.arange(self.envs)))
        return Lanes(state, episode, self._nothing(self.envs, self.burn))

    def _anew(self, lanes: Lanes, seed: Array) -> Lanes:
        """The lanes with new episodes in all of them."""
        past = None if lanes.past is None else lanes.past._replace(fresh=jnp.ones(self.envs, bool))
        return Lanes(self._begun(seed, lanes.episode + 1), lanes.episode + 1, past)

    def _begun(self, seed: Array, episode: Array) -> State:
        return self._reset(derived(seed, "collect", jnp.arange(len(episode)), episode))

    def outputs(
        self, policy: Policy, actor: ActorArrays, memory: Array, inputs: Array
    ) -> tuple[Array, Array]:
        """The memory after these rows, (e, memory), and the outputs."""
        if inputs.dtype.kind == "f":
            inputs = (inputs - actor.mean) / actor.scale
        with jax.default_matmul_precision("highest"):  # a GPU would multiply with ten bits
            if policy.memory:
                return policy.step(actor.params, memory, inputs)
            return memory, policy.apply(actor.params, inputs)

    def _warm(self, policy: Policy, actor: ActorArrays, past: Past | None) -> Array:
        """What a policy remembers at the beginning of a round: of the last rows, by its new parameters."""
        memory = jnp.zeros((self.envs, policy.memory))
        if past is None or not policy.memory:
            return memory
        last = jnp.swapaxes(past.kept, 0, 1)
        return jax.lax.scan(lambda m, rows: (self.outputs(policy, actor, m, rows)[0], None), memory, last)[0]

    def _ask_expert(self, observation: Nested) -> tuple[Array, Array]:
        """The expert's target rows, and the actions behind them: of a distribution its mode."""
        assert self.expert.pure is not None  # see `possible`
        with jax.default_matmul_precision("highest"):
            labels = self.expert.pure(observation)
        if self.expert.kind == "distribution":
            return self.actions.targets(labels, "distribution"), self.actions.plays(labels)
        wanted = self.actions.targets(labels, "action")
        kind = jnp.int32 if self.actions.categorical else jnp.float32
        return wanted, labels.astype(kind).reshape(len(labels), *self.actions.shape)

    def _program(
        self,
        function: Callable[..., R],
        policy: Policy,
        *sizes: int | None,
        alone: bool,
        donated: int | None = None,
    ) -> Callable[..., R]:
        """``function(policy, *sizes, …)`` compiled, for one run or player, or for a stack of them; once."""
        key = function.__name__, architecture(policy), *sizes, alone
        if key not in self._made:
            played = functools.partial(function, policy, *sizes)
            self._made[key] = jax.jit(played if alone else jax.vmap(played), donate_argnums=donated)
        return self._made[key]

    def collecting(self, policy: Policy, size: int, alone: bool) -> Callable[..., tuple[Lanes, Gathered]]:
        """The program of a round: of one run, or of a stack of runs."""
        return self._program(self._collect, policy, size, alone=alone, donated=1)

    def _collect(
        self,
        policy: Policy,
        size: int,
        actor: ActorArrays,
        lanes: Lanes,
        seed: Array,
        by_expert: Array,
        noise: Array | None,
    ) -> tuple[Lanes, Gathered]:
        e, steps, rest = self.envs, by_expert.shape[0], size % self.envs

        def turn(
            carry: tuple[Lanes, Array], given: tuple[Array, Array, Array | None]
        ) -> tuple[tuple[Lanes, Array], tuple[tuple[Array, ...], Array]]:
            (lanes, memory), (number, driven, loud) = carry, given
            inputs = self._rows(lanes.state.observation, lanes.past)
            wanted, shown = self._ask_expert(lanes.state.observation)
            memory, outputs = self.outputs(policy, actor, memory, inputs)
            played = self.actions.plays(outputs if loud is None else outputs + loud)
            action = chosen(driven, shown, played)
            new = self._step(lanes.state, action)
            flags = TERMINATED * new.terminated + TRUNCATED * new.truncated + EXPERT * driven
            ended = new.terminated | new.truncated
            episode = lanes.episode + ended
            reset = functools.partial(self._begun, seed, episode)
            state = jax.lax.cond(ended.any(), lambda: chosen(ended, reset(), new), lambda: new)
            after = Lanes(state, episode, self._later(lanes.past, inputs, ended))
            if rest:  # the last step of a round may be played in some of the slots only
                live = (number < steps - 1) | (jnp.arange(e) < rest)
                after = chosen(live, after, lanes)
            sound = jnp.isfinite(inputs).all() if inputs.dtype.kind == "f" else True
            made = inputs, wanted, action.reshape(e, -1), new.reward, flags.astype(jnp.uint8)
            return (after, memory), (made, sound & jnp.isfinite(wanted).all())

        carry = lanes, self._warm(policy, actor, lanes.past)
        (lanes, _), (made, sound) = jax.lax.scan(turn, carry, (jnp.arange(steps), by_expert, noise))
        flags = made[4]
        live = (jnp.arange(steps * e) < size).reshape(steps, e)
        ended, acts = (flags & (TERMINATED | TRUNCATED) > 0) & live, (flags & EXPERT > 0) & live
        counts = {
            "episodes": ended.sum(),
            "handovers": (acts[1:] & ~acts[:-1] & ~ended[:-1]).sum(),
            "finite": sound.all(),
        }
        columns = [leaf.reshape(steps * e, *leaf.shape[2:])[:size] for leaf in made]
        return lanes, Gathered(*columns, counts=counts)

    def evaluating(
        self, policy: Policy, episodes: int, limit: int | None, alone: bool
    ) -> Callable[..., Played]:
        """The program of an evaluation, of one player or of a stack: returns, lengths, whether each episode
        ended and was finite.
        """
        return self._program(self._evaluate, policy, episodes, limit, alone=alone)

    def compile_aside(
        self, policy: Policy, episodes: int, limit: int | None, alone: bool, given: Given
    ) -> None:
        """Begins to compile the evaluation of players in a thread; who plays it first waits for it."""
        play = self.evaluating(policy, episodes, limit, alone)
        lower: Callable[..., jax.stages.Lowered] | None = getattr(play, "lower", None)
        if lower is None:  # it is under way
            return
        lowered = lower(*given)  # here, so that the round's program finds the environment traced
        pool = ThreadPoolExecutor(1)
        program = pool.submit(lowered.compile)
        pool.shutdown(wait=False)
        shapes = jax.tree.map(jnp.shape, given)

        def ready(*now: ActorArrays | Array | np.ndarray | np.generic) -> Played:
            return (program.result() if jax.tree.map(jnp.shape, now) == shapes else play)(*now)

        key = next(key for key, made in self._made.items() if made is play)
        self._made[key] = ready

    def _evaluate(
        self,
        policy: Policy,
        episodes: int,
        limit: int | None,
        actor: ActorArrays,
        seed: Array,
        player: Array,
        number: Array,
    ) -> Played:
        seeds = derived(seed, "evaluate", number, jnp.arange(episodes))
        state = self._reset(seeds)
        chance = derived(seed, "random", number, jnp.arange(episodes))
        zero, yes = jnp.zeros(episodes), jnp.ones(episodes, bool)

        def drawn(step: Array) -> Array:
            """Outputs of random actions."""
            keys = jax.vmap(lambda one: jax.random.fold_in(key_of(one), step))(chance)
            each = jax.vmap(lambda key: jax.random.uniform(key, (self.actions.outputs,)))(keys)
            return self.actions.spread(each).astype(jnp.float32)

        def going(carry: Playing) -> Array:
            _, _, lengths, live, sound, _, _ = carry
            more = (live & sound).any()
            return more & (lengths.max() < STEP_LIMIT) if limit is None else more

        def turn(carry: Playing) -> Playing:
            state, returns, lengths, live, sound, past, memory = carry
            inputs = self._rows(state.observation, past)
            memory, outputs = self.outputs(policy, actor, memory, inputs)
            own = jax.lax.cond(player == RANDOM, drawn, lambda _: outputs, lengths.max())
            own = self.actions.plays(own)
            action = jnp.where(player == TAUGHT, self._ask_expert(state.observation)[1], own)
            if inputs.dtype.kind == "f":
                sound &= jnp.isfinite(inputs).all(axis=1) | ~live
            new = self._step(state, action)
            returns, lengths = returns + live * new.reward, lengths + live
            over = new.terminated | new.truncated
            over = over if limit is None else over | (lengths >= limit)
            past = self._later(past, inputs, ~yes)
            return new, returns, lengths, live & ~over, sound, past, memory

        memory = jnp.zeros((episodes, policy.memory))
        first = state, zero, jnp.zeros(episodes, jnp.int32), yes, yes, self._nothing(episodes, 0), memory
        _, returns, lengths, live, sound, _, _ = jax.lax.while_loop(going, turn, first)
        return returns, lengths, ~live, sound


@final
class DeviceCollector:
    """Rounds and evaluations of a student on the device; see `collect.Collector` and `evaluate.Arena`.

    call: how a program is called: alone, or together with those of other runs.
    """

    few = 1 << 30

    def __init__(self, world: World, student: Understudy, expert: Expert, call: Call = call_alone):
        parts = student.parts
        seen = parts.observations
        burn = getattr(student.game.policy, "burn", 0)
        assert world.pure is not None  # see `possible`
        self.student, self.spec, self._env, self._call = student, student.spec, world.pure, call
        self._seed, self._envs, self._lanes = words(student.spec.seed), student.timetable.num_envs, None
        assert isinstance(seen, Observations | Recalled)
        about = seen, parts.actions, expert, student.timetable.num_envs, burn, student.resolved.stagger
        same = "kit", repr(seen.config()), parts.kind, *about[3:]
        if same not in world.cache:
            world.cache[same] = Kit(world.pure, *about)
        self._kit: Kit = world.cache[same]
        student.on_device = True

    def collect(self, plan: Plan, tick: Tick | None = None) -> Path:
        """The path of a round, with the labels of all its states."""
        self._foresee()
        student, size = self.student, plan.size
        path = student.path(size, self._envs)
        by_expert = draw_expert_steps(plan, self.spec.seed, spent=student.timetable.budget is not None)
        noise = draw_noise(student, plan)
        policy, params = student.acting()
        if self._lanes is None:
            self._lanes = over_devices(self._kit.first(self._seed))
        loud = None if noise is None else self._by_step(noise)
        args = self._actor(params), self._lanes, self._seed, self._by_step(by_expert), loud

        def collect_all(many: Sequence[Arguments]) -> Sequence[tuple[Lanes, Gathered]]:
            return _called(self._kit.collecting(policy, size, len(many) == 1), many)

        same = "collect", architecture(policy), kind(args), size
        self._lanes, gathered = self._call(same, args, collect_all)
        gathered = to_one_device(gathered)
        counts = jax.device_get(gathered.counts)
        if not counts["finite"]:
            raise UserError("environment: an observation or label is not finite.")
        path.inputs, path.targets, path.executed = gathered.inputs, gathered.targets, gathered.executed
        path.rewards, path.flags, path.filled, path.by_expert = (
            gathered.rewards,
            gathered.flags,
            size,
            by_expert,
        )
        path.known = Counts(float(by_expert.mean()), int(counts["handovers"]), int(counts["episodes"]))
        if tick is not None:
            tick(COLLECTING, size, size)
        return path

    def _foresee(self) -> None:
        """Compiles the evaluation in a thread while the first round compiles: each contains the physics, and
        that takes long.
        """
        student = self.student
        if self._lanes is not None or student.resolved.ensemble > 1 or self._call is not call_alone:
            return
        policy, args, episodes = self._playing(
            student.shown(), EpisodeSet(self.spec.seed, student.timetable.looks, 0), POLICY
        )
        if episodes:
            self._kit.compile_aside(policy, episodes, self.spec.episode_limit, True, args)

    def _by_step(self, values: np.ndarray) -> np.ndarray:
        """What was drawn for a round (size, …), by step and environment; zeros in the end."""
        missing = [(0, -len(values) % self._envs)] + [(0, 0)] * (values.ndim - 1)
        return np.pad(values, missing).reshape(-1, self._envs, *values.shape[1:])

    def _actor(self, params: Params) -> ActorArrays:
        # Thousands of environments act in single precision, whatever their policy is solved in.
        seen = self.student.normaliser
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
        return ActorArrays(single, jnp.asarray(seen.mean, jnp.float32), jnp.asarray(seen.scale, jnp.float32))

    def of_policy(self, shown: tuple[Policy, Params], asked: EpisodeSet) -> Evaluation:
        return self._evaluate(shown, asked, POLICY)

    def of_expert(self, asked: EpisodeSet) -> Evaluation:
        # Through the program of the policy, whose answers it does not take: a second program would take as
        # long to compile as the first.
        return self._evaluate(self.student.shown(), asked, TAUGHT)

    def of_random(self, asked: EpisodeSet) -> Evaluation:
        return self._evaluate(self.student.shown(), asked, RANDOM)

    def _playing(
        self, shown: tuple[Policy, Params], asked: EpisodeSet, player: int
    ) -> tuple[Policy, Given, int]:
        """The policy whose program plays these episodes, its arguments, and how many it plays: as many in
        looks as in the last evaluation, since more of them take no longer and another program would.
        """
        seed, episodes, number = asked
        policy, params = shown
        args = self._actor(params), words(seed), np.int32(player), np.uint32(number)
        return (
            policy,
            args,
            episodes and max(episodes, self.student.timetable.looks, self.student.timetable.judging),
        )

    def _evaluate(self, shown: tuple[Policy, Params], asked: EpisodeSet, player: int) -> Evaluation:
        """Whole episodes: as `evaluate.play_episodes`, all of them side by side."""
        policy, args, most = self._playing(shown, asked, player)
        seed, episodes, number = asked
        if not episodes:
            return Evaluation(np.zeros(0), np.zeros(0, np.int64))

        def evaluate_all(many: Sequence[Arguments]) -> Sequence[Played]:
            return _called(self._kit.evaluating(policy, most, self.spec.episode_limit, len(many) == 1), many)

        played = self._call(("evaluate", architecture(policy), kind(args), most), args, evaluate_all)
        returns, lengths, over, finite = (column[:episodes] for column in jax.device_get(played))
        if not finite.all():
            raise UserError("environment: an observation is not finite.")
        if not over.all():
            raise endless(self._env.name)
        seeds = [derive(seed, "evaluate", number, episode) for episode in range(episodes)]
        return Evaluation(returns.astype(np.float64), lengths.astype(np.int64), np.asarray(seeds))

    def snapshot(self) -> list[Slot]:
        """Where the environments are: the arrays of their states, as one slot."""
        nothing: Slot = {"episode": -1, "actions": np.zeros(0, np.float32), "row": np.zeros(0, np.float32)}
        if self._lanes is None:
            return [nothing]
        leaves = jax.tree.leaves(jax.device_get(plain_keys(self._lanes)))
        return [nothing | {"episode": 0} | {f"lanes.{i:03d}": leaf for i, leaf in enumerate(leaves)}]

    def restore(self, snapshot: Sequence[Slot]) -> int:
        """Back to a snapshot; nobody has to be asked anything again for it. One of other environments is
        refused, for new episodes too: they go on from it.
        """
        if not snapshot or snapshot[0]["episode"] < 0:
            return 0
        like = jax.eval_shape(self._kit.first, self._seed)
        shapes, structure = jax.tree.flatten(jax.eval_shape(plain_keys, like))
        leaves = [snapshot[0].get(f"lanes.{i:03d}") for i in range(len(shapes))]
        if any(
            not isinstance(a, np.ndarray) or a.shape != b.shape or a.dtype != b.dtype
            for a, b in zip(leaves, shapes, strict=True)
        ):
            raise UserError("resume: the environments of the run are not those of now; begin a new run.")
        back = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
        self._lanes = over_devices(keys_again(back, like))
        return 0

    def resume_anew(self, snapshot: Sequence[Slot], found: Sequence[Kept]) -> None:
        """On from a snapshot with new episodes in all environments."""
        self.restore(snapshot)
        if self._lanes is not None:
            self._lanes = self._kit.anew(self._lanes, self._seed)


def _called(program: Callable[..., R], many: Sequence[Arguments]) -> Sequence[R]:
    """A program of one run, or of several, with the arguments of each."""
    if len(many) == 1:
        return [program(*many[0])]
    return apart(program(*stacked(many)), len(many))
