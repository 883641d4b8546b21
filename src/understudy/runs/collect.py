"""Collecting a round on the host: exactly M steps, whoever acts: observe, act, step, record.

`Episodes` are the environments, the `Driver` says who acts in them: the policy, the expert, one of them at
random, or the expert where it takes over. A label is asked for at once where the expert acts, or where it
remembers what it saw; all others after the round.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, final

import numpy as np

from ..asking import Gate
from ..envs.gymnasium import Observed, VectorEnv, derive, raise_broken
from ..envs.pictures import Scene
from ..envs.pure import PureVector
from ..errors import UserError, failure
from ..experts import Expert
from ..policies import Actions, History, Recalled, Seen, require_finite
from ..policies.acting import Actor
from ..progress import COLLECTING
from ..samples import TERMINATED, TRUNCATED, Labels, Path
from ..student import Plan, Understudy
from .journal import Kept
from .labelling import Labelling, some_of
from .patient import Human

if TYPE_CHECKING:
    pass

Tick = Callable[[str, int, int], None]
"""Called as ``tick(stage, steps, labels)``, with the steps and labels of the current round so far."""


Slot: TypeAlias = dict[str, int | np.ndarray]
"""Where an environment is: the number of its episode, and arrays."""


class Collector(Protocol):
    """Where rounds are collected: on the host (below) or on the device (`runs.device`)."""

    def collect(self, plan: Plan, tick: Tick | None = None) -> Path: ...

    def snapshot(self) -> list[Slot]:
        """Where the environments are, as arrays."""
        ...

    def restore(self, snapshot: Sequence[Slot]) -> int:
        """Back to a snapshot; how often the expert was asked for it."""
        ...

    def resume_anew(self, snapshot: Sequence[Slot], journalled: Sequence[Kept]) -> None:
        """On from a snapshot with new episodes, for environments that cannot play the old ones again; the
        labels found of the round under way are its first samples.
        """
        ...


@final
class Episodes:
    """The slots of a vector environment, each with an episode under way.

    Episode k of slot j is seeded by (the run's seed, "collect", j, k). With its actions the seed rebuilds it.
    A policy with memory needs the last `burn` rows of every slot.
    """

    def __init__(
        self,
        env: VectorEnv,
        count: int,
        observations: Seen,
        actions: Actions,
        expert: Expert,
        seed: int,
        *,
        burn: int = 0,
        ages: np.ndarray | None = None,
    ):
        self.env, self.count, self.observations, self.actions = env, count, observations, actions
        self._expert, self._seed, self._ages = expert, seed, ages
        self.slots = np.arange(count)
        self._episode = np.full(count, -1)
        # Actions of the episode under way in every slot.
        self._played = [np.zeros((0, actions.size), actions.dtype) for _ in self.slots]
        self._over = np.ones(count, bool)  # the next look begins an episode
        self._waits = True  # in one of them at least
        self.driven = np.zeros(count, bool)  # the expert has taken over, until it gives back or the end
        self.history = History(observations, count, keep=burn) if isinstance(observations, Recalled) else None
        # For an expert who looks at pictures: what was played so far in the episode of every slot.
        self._trails: dict[int, list[np.ndarray]] | None = None if expert.person is None else {}

    def _begin_next(self, slots: np.ndarray) -> None:
        if self._expert.on_reset is not None:
            self._expert.on_reset()
        self._episode[slots] += 1
        self._over[slots] = self.driven[slots] = False
        if self.history is not None:
            self.history.begin(slots)
        if self._trails is not None:
            self._trails |= {slot: [] for slot in slots.tolist()}
        self._seed_env(slots)

    def _seed_env(self, slots: np.ndarray) -> None:
        """Begins the episodes of these slots in the environment; first ones at their ages."""
        if self._ages is not None:
            first = slots[self._episode[slots] == 0]
            cast(PureVector, self.env).ages[first] = self._ages[first]
        self.env.begin(slots, [self.seed_of(slot) for slot in slots.tolist()])

    def seed_of(self, slot: int) -> int:
        """The seed of the episode under way in a slot."""
        return derive(self._seed, "collect", slot, int(self._episode[slot]))

    def look(self, slots: np.ndarray, *, sound: bool = True) -> tuple[Observed, np.ndarray]:
        """What the slots show, and as rows (n, width), whose numbers are finite where they are to be `sound`.
        Where no episode is under way, one is begun first.
        """
        if self._waits:
            self._waits = False
            self._begin_next(self.slots[self._over])
        if self.env.broken:
            raise_broken(self.env)
        seen, past = self.env.observe(slots), self.history
        rows = self.observations.rows(seen.batch) if past is None else past.see(slots, seen.batch)
        if self._trails is not None:
            seen = Observed(seen.batch, [{"scene": self._scene(slot)} for slot in slots.tolist()])
        if sound:
            require_finite(rows)
        return seen, rows

    def _scene(self, slot: int) -> Scene:
        """How the state that a slot shows came about."""
        assert self._trails is not None
        if slot not in self._trails:  # resumed
            acts = self.actions
            self._trails[slot] = [np.asarray(a, acts.dtype).reshape(acts.shape) for a in self._played[slot]]
        trail = self._trails[slot]
        return Scene(self.seed_of(slot), trail, len(trail))

    def step(
        self, slots: np.ndarray, rows: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Plays an action in each of the slots that show these rows, and begins the next episode where one
        has ended: rewards, terminated and truncated (n,), None in place of the last two where none has.
        """
        if self._trails is not None:
            for slot, action in zip(slots.tolist(), actions, strict=True):
                self._trails[slot].append(np.array(action))
        rewards, terminated, truncated = self.env.step(slots, actions)
        if self.history is not None:
            self.history.advance(slots, rows)
        if 1 not in terminated.tobytes() and 1 not in truncated.tobytes():  # quicker than any
            return rewards, None, None
        self._begin_next(slots[terminated | truncated])
        return rewards, terminated, truncated

    def remember(self, path: Path) -> None:
        """Keeps the actions of a round that belong to episodes under way."""
        for slot in range(self.count):
            mine = slice(path.begun + slot, None, self.count)
            ends = np.flatnonzero(path.flags[mine] & (TERMINATED | TRUNCATED))
            before = [] if len(ends) else [self._played[slot]]
            since = ends[-1] + 1 if len(ends) else 0
            self._played[slot] = np.concatenate([*before, path.executed[mine][since:]])

    def snapshot(self) -> list[Slot]:
        """Where each environment is: its episode, the actions played in it, the row it shows."""
        if self._waits and self._episode.max() < 0:  # no episode has begun yet
            nothing = np.zeros(0, self.observations.dtype)
            return [{"episode": -1, "actions": played, "row": nothing} for played in self._played]
        _, rows = self.look(self.slots, sound=False)
        return [
            {"episode": int(episode), "actions": played, "row": row}
            for episode, played, row in zip(self._episode, self._played, rows, strict=True)
        ]

    def resume_anew(self, snapshot: Sequence[Slot]) -> None:
        """On from a snapshot with new episodes, for environments that cannot play the old ones again."""
        for slot, before in enumerate(snapshot):
            self._episode[slot] = int(before["episode"])

    def restore(self, snapshot: Sequence[Slot]) -> int:
        """Back to a snapshot, by beginning each episode with its seed and playing its actions again.

        An expert that remembers is reset, and asked about every state again: the number of such calls.
        """
        asked = 0
        for slot, before in enumerate(snapshot):
            if before["episode"] >= 0:
                asked += self._play_again(slot, int(before["episode"]), np.asarray(before["actions"]))
        for now, before in zip(self.snapshot() if snapshot else [], snapshot, strict=True):
            if np.asarray(now["row"]).tobytes() != np.asarray(before["row"]).tobytes():
                raise UserError(
                    f"resume: the environment does not replay: after {len(np.asarray(before['actions']))} "
                    f"actions of episode {before['episode']} its observation is another one now, so it "
                    "cannot be continued exactly; --resume=new-episode goes on with a new one."
                )
        return asked

    def _play_again(self, slot: int, episode: int, actions: np.ndarray) -> int:
        """Plays the actions of an episode in a slot; how often the expert was asked on the way."""
        here, remembers = np.array([slot]), self._expert.on_reset is not None
        self._episode[slot], self._played[slot], self._over[slot] = episode, actions, False
        self._waits = bool(self._over.any())
        if self.history is not None:
            self.history.begin([slot])
        self._seed_env(here)
        if self._expert.on_reset is not None:
            self._expert.on_reset()
        for action in actions:
            if remembers:
                try:
                    self._expert.label(*self.env.observe(here))
                except Exception as error:
                    raise failure("expert", error) from error
            if self.history is not None:
                self.history.advance(here, self.history.see(here, self.env.observe(here).batch))
            played = np.asarray(action, self.actions.dtype).reshape(1, *self.actions.shape)
            _, terminated, truncated = self.env.step(here, played)
            if slot in self.env.broken:
                raise failure("environment", self.env.broken[slot])
            if terminated[0] or truncated[0]:
                raise UserError(
                    "resume: the environment does not replay: an episode under way ends earlier now; "
                    "--resume=new-episode goes on with a new one."
                )
        return len(actions) if remembers else 0


def draw_expert_steps(plan: Plan, seed: int, *, begun: int = 0, spent: bool = False) -> np.ndarray:
    """In which steps of a round the expert acts, (size,): with probability β, drawn for every step. The first
    `begun` steps are labels from before a break and count as the expert's. spent: the round's labels are
    limited (`plan.labels`), and the policy acts once they are used up.
    """
    if plan.beta in (0.0, 1.0):  # no number is drawn that could change it
        by_expert = np.full(plan.size, plan.beta == 1.0)
    else:
        by_expert = np.random.default_rng(derive(seed, "mixing", plan.number)).random(plan.size) < plan.beta
    by_expert[:begun] = True
    return by_expert & (np.cumsum(by_expert) <= plan.labels) if spent else by_expert


def draw_noise(student: Understudy, plan: Plan) -> np.ndarray | None:
    """What is added to the policy's outputs in a round, (size, k): Gaussian (Box) or Gumbel on the logits
    (choices); None where nothing is.
    """
    actions, size = student.parts.actions, student.resolved.noise
    if not size:
        return None
    rng = np.random.default_rng(derive(student.spec.seed, "noise", plan.number))
    shape = plan.size, actions.outputs
    noise = rng.gumbel(size=shape) if actions.categorical else rng.standard_normal(shape)
    return (size * noise).astype(np.float32)


@final
class Driver:
    """Acts for a student in the slots of a run, round after round. asked: labels of the round so far.

    An episode may continue from one round to the next, with new parameters. A policy with memory then first
    reads the last states again, so that its memory fits the new parameters. Within a round its memory is
    updated in every step, also where the expert acts.
    """

    def __init__(self, student: Understudy, labelling: Labelling, episodes: Episodes):
        self.student, self.labelling, self.episodes = student, labelling, episodes
        self._remembers = labelling.expert.on_reset is not None
        self._infos = labelling.expert.needs_infos or labelling.expert.person is not None
        self._actions = student.parts.actions
        seen = student.parts.observations
        rows = student.spec.memory_limit // max(seen.width * seen.dtype.itemsize, 1)
        # A rule must have seen the whole round before anything is asked.
        self._most = None if student.timetable.rule is not None else max(rows, episodes.count)

    def begin(self, plan: Plan, journalled: Sequence[Kept] = ()) -> Path:
        """The empty path of a round; `journalled` are labels of it from before a break."""
        student = self.student
        self.labelling.begin(plan.number)
        parts = student.parts
        path = Path(plan.size, parts.observations, parts.actions, parts.kind, self.episodes.count)
        self.path = path
        path.recover(journalled[: plan.size])
        limited = student.timetable.budget is not None
        path.by_expert[:] = draw_expert_steps(plan, student.spec.seed, begun=path.begun, spent=limited)
        self._noise = draw_noise(student, plan)
        self._gate = student.gate() if student.spec.moment == "spot" else None
        self._actor: Actor | None = None
        self.episodes.driven[:] = False
        self.asked = path.begun
        asked = self._remembers or self._gate is not None or path.by_expert[path.begun :].any()
        self._policy_only = not asked  # nobody but the policy acts, and nothing is asked on the way
        return path

    def act(self, slots: np.ndarray, seen: Observed, rows: np.ndarray) -> np.ndarray:
        """The actions (n, …) in these slots, which show `seen`, as rows (n, width)."""
        path, here = self.path, slice(self.path.filled, self.path.filled + len(rows))
        if self._policy_only:
            self._wait(seen, here)
            return self._policy(slots, rows, here)
        if self._gate is not None:
            self._take_over(self._gate, slots, seen, rows, here)
        acts = self._actions
        asked = np.ones(len(rows), bool) if self._remembers else path.by_expert[here].copy()
        actions = np.zeros((len(rows), *acts.shape), acts.dtype)
        if asked.any():
            chosen = np.flatnonzero(asked)
            some = seen if asked.all() else some_of(seen, chosen)
            labels = self.labelling.label(some, rows[chosen], live=True)
            path.enter(here.start + chosen, labels)
            self.asked += int(labels.new.sum())
            actions[chosen] = self._played(labels)
            path.by_expert[here][chosen] &= labels.answered  # where it is silent, the policy acts
        if not asked.all():
            others = np.flatnonzero(~asked)
            self._wait(some_of(seen, others), here.start + others)
        mine = ~path.by_expert[here]
        if mine.all():
            return self._policy(slots, rows, here)
        if self.student.game.policy.memory and not path.by_expert.all():  # it goes on, whoever acts
            actions[mine] = self._policy(slots, rows, here)[mine]
        elif mine.any():
            actions[mine] = self._policy(slots[mine], rows[mine], here, mine)
        return actions

    def _policy(
        self, slots: np.ndarray, rows: np.ndarray, here: slice, mine: slice | np.ndarray = slice(None)
    ) -> np.ndarray:
        """The policy's actions for these rows, with the noise of the steps `here`, or of those of them that
        are `mine`.
        """
        if self._actor is None:
            self._actor = self._loaded()
        outputs = self._actor.outputs(rows, slots)
        if self._noise is not None:
            if self._noise.dtype != outputs.dtype:
                self._noise = self._noise.astype(outputs.dtype)  # once a round, and not in every step
            noise = self._noise[here]
            outputs = outputs + (noise if len(noise) == len(outputs) else noise[mine])
        return self._actions.plays(outputs)

    def _loaded(self) -> Actor:
        """The policy of now; what it remembers comes from the last rows of every slot."""
        policy, params = self.student.acting()
        actor = Actor(policy, params, self.student.normaliser, self.episodes.count)
        if actor.memory and self.episodes.history is not None:
            last, burn = self.episodes.history.kept, getattr(policy, "burn", 0)
            for j in range(last.shape[1] - burn, last.shape[1]):
                actor.outputs(last[:, j], self.episodes.slots)
        return actor

    def _played(self, labels: Labels) -> np.ndarray:
        """The actions behind answers, zeros where there are none; a distribution is played by its mode."""
        acts = self._actions
        if not labels.answered.any():
            return np.zeros((len(labels.answered), *acts.shape), acts.dtype)
        if self.student.parts.kind == "distribution":
            return acts.plays(labels.values)
        return np.asarray(labels.values).astype(acts.dtype).reshape(-1, *acts.shape)

    def _take_over(
        self, gate: tuple[Gate | None, int], slots: np.ndarray, seen: Observed, rows: np.ndarray, here: slice
    ) -> None:
        """Enters where the expert takes over in this step."""
        rule, most = gate
        left = max(most - int(self.path.by_expert[: here.start].sum()), 0)
        if rule is None:
            assert isinstance(self.labelling, Human)
            drives = np.array([left > 0 and self.labelling.takes_over(seen)])
        else:
            drives = rule.driving(rows, self.episodes.driven[slots])
        self.episodes.driven[slots] = drives & (np.cumsum(drives) <= left)
        self.path.by_expert[here] = self.episodes.driven[slots]

    def _wait(self, seen: Observed, index: np.ndarray | slice) -> None:
        """Keeps states to ask about after the round. If they would exceed the memory limit, those kept so far
        are asked about now (their rows are in the path already).
        """
        waiting = len(self.path.waiting) * self.episodes.count
        if self._most is not None and waiting >= self._most:
            self.labelling.answer(self.path, np.ones(self.path.size), last=False)
        if len(seen.infos):  # environments may write over them
            seen = Observed(seen.batch, copy.deepcopy(seen.infos) if self._infos else ())
        self.path.waiting.append((seen, index))


@final
class HostCollector:
    """Steps environments with the actions that a driver says."""

    def __init__(self, env: VectorEnv, student: Understudy, labelling: Labelling):
        parts, count = student.parts, student.timetable.num_envs
        about = parts.observations, parts.actions, labelling.expert, student.spec.seed
        ages = None
        if isinstance(env, PureVector) and student.resolved.stagger:
            seeds = [derive(student.spec.seed, "stagger", slot) for slot in range(count)]
            ages = np.array(seeds) % (env.limit or 1)
        burn = getattr(student.game.policy, "burn", 0)
        self.episodes = Episodes(env, count, *about, burn=burn, ages=ages)
        self.driver = Driver(student, labelling, self.episodes)
        self._found: Sequence[Kept] = ()  # labels of the round under way, from before a break

    def collect(self, plan: Plan, tick: Tick | None = None) -> Path:
        """The path of a round."""
        episodes, driver, size = self.episodes, self.driver, plan.size
        path, self._found = driver.begin(plan, self._found), ()
        while (left := size - path.filled) > 0:
            # The last step of a round may be played in some of the slots only.
            slots = episodes.slots if left >= episodes.count else episodes.slots[:left]
            seen, rows = episodes.look(slots)
            actions = driver.act(slots, seen, rows)
            path.record(rows, actions, *episodes.step(slots, rows, actions))
            if tick is not None:
                tick(COLLECTING, path.filled, driver.asked)
        if episodes.env.broken:
            raise_broken(episodes.env)
        path.settle()
        episodes.remember(path)
        return path

    def snapshot(self) -> list[Slot]:
        return self.episodes.snapshot()

    def restore(self, snapshot: Sequence[Slot]) -> int:
        return self.episodes.restore(snapshot)

    def resume_anew(self, snapshot: Sequence[Slot], journalled: Sequence[Kept]) -> None:
        self.episodes.resume_anew(snapshot)
        self._found = journalled
