"""Collecting a round: exactly M interactions of every run, each labelled by the expert, whoever acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ..envs.gymnasium import derive
from ..envs.vector import Seen, VectorEnv
from ..errors import UserError
from ..policies import Actions, Encoded, Observations

if TYPE_CHECKING:
    from .groups import Members

TERMINATED, TRUNCATED, EXPERT = 1, 2, 4


@final
@dataclasses.dataclass(frozen=True)
class Round:
    """The samples of one round of one run, one row per interaction, in the order played (slot after slot
    within a step).

    inputs (m, width): the observation encoded, before standardising; targets (m, k): the expert's label;
    executed (m, a): the action played; rewards (m,); flags (m,): 1 terminated, 2 truncated, 4 the expert
    acted; slots (m,): which environment. `queries` counts labels asked for.
    """

    inputs: np.ndarray
    targets: np.ndarray
    executed: np.ndarray
    rewards: np.ndarray
    flags: np.ndarray
    slots: np.ndarray
    queries: int

    def __len__(self) -> int:
        return len(self.inputs)


class Driver(NamedTuple):
    """What is random in a run's rounds: all of it follows from its seed. `noise` is the size of the noise
    on what the policy plays: Gaussian (Box) or Gumbel on the logits (choices).
    """

    seed: int
    noise: float = 0.0

    def draws(
        self, actions: Actions, number: int, size: int, beta: float
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """For round `number`: where the expert acts (size,), and the noise (size, k)."""
        by_expert = np.random.default_rng(derive(self.seed, "mixing", number)).random(size) < beta
        if not self.noise:
            return by_expert, None
        rng, shape = np.random.default_rng(derive(self.seed, "noise", number)), (size, actions.outputs)
        drawn = rng.gumbel(size=shape) if actions.categorical else rng.standard_normal(shape)
        return by_expert, (self.noise * drawn).astype(np.float32)


@final
class Collector:
    """The environments of n runs, `envs` slots each: slot i · envs + j is environment j of run i.

    Episode k of environment j of a run is seeded by (the run's seed, "collect", j, k). The label is always
    the expert's; the action played is the expert's with probability β, else the policy's.
    """

    def __init__(
        self,
        env: VectorEnv,
        expert: Any,
        observations: Observations | Encoded,
        actions: Actions,
        drivers: Sequence[Driver],
        envs: int = 1,
    ):
        self.env, self.expert, self.envs, self.drivers = env, expert, envs, list(drivers)
        self.observations, self.actions = observations, actions
        self._episode = np.full(len(drivers) * envs, -1)
        # Actions of the episode under way in every slot: with its seed they rebuild it.
        self._played = [np.zeros((0, actions.size), actions.dtype) for _ in self._episode]

    def collect(
        self,
        runs: Sequence[int],
        size: int,
        *,
        betas: Sequence[float],
        number: int,
        acting: Callable[[Sequence[int]], list[Members]],
    ) -> tuple[dict[int, Round], dict[int, UserError]]:
        """Round `number` of these runs, `size` interactions each; the rounds, and the errors of those that
        failed.

        `acting(chosen)` gives the policies of some of the runs, by architecture.
        """
        e, n, k, acts, codec = self.envs, len(runs), self.actions.outputs, self.actions, self.observations
        slots = np.asarray(runs)[:, None] * e + np.arange(e)
        self._next(slots[self._episode[slots] < 0])
        by_expert, noise = np.empty((n, size), bool), np.zeros((n, size, k), np.float32)
        noisy = np.zeros(n, bool)
        for i, run in enumerate(runs):
            by_expert[i], drawn = self.drivers[run].draws(acts, number, size, betas[i])
            if drawn is not None:
                noise[i], noisy[i] = drawn, True
        inputs, targets = np.empty((n, size, codec.width), codec.dtype), np.empty((n, size, k), np.float32)
        executed = np.empty((n, size, acts.size), acts.dtype)
        rewards, flags = np.empty((n, size), np.float32), np.empty((n, size), np.uint8)
        errors: dict[int, UserError] = {}
        live, row, policies = np.arange(n), 0, None
        while row < size and len(live):
            # The last step of a round may be played in some of the slots only.
            part = slice(row, min(row + e, size))
            here = slots[live, : part.stop - row]
            flat, shape = here.reshape(-1), here.shape
            rows, labels, wrong = self._look(here)
            if wrong:
                bad = {slot // e: error for slot, error in wrong.items()}
                errors |= {run: _prefixed(number, error) for run, error in bad.items()}
                live = live[[runs[i] not in bad for i in live.tolist()]]
                policies = None
                continue
            if policies is None:
                driven = [i for i in live.tolist() if not by_expert[i].all()]
                where = {runs[i]: at for at, i in enumerate(live.tolist())}
                policies = [
                    (group, np.array([where[run] for run in group.runs]))
                    for group in acting([runs[i] for i in driven])
                ]
                who = slice(None) if len(live) == n else live
                loud = noisy[live]
            inputs[who, part] = rows.reshape(*shape, -1)
            targets[who, part] = acts.targets(labels, self.expert.kind).reshape(*shape, k)
            actions = self._experts(labels)
            own = ~by_expert[who, part]
            for group, at in policies:
                mine = own[at]
                if not mine.any():
                    continue
                outputs = group.outputs(rows.reshape(*shape, -1)[at], mine)
                if loud[at].any():
                    chosen = loud[at]
                    outputs[chosen] = outputs[chosen] + noise[live[at[chosen]], part]
                if len(at) == len(live) and mine.all():
                    actions = acts.plays(outputs.reshape(len(flat), -1))
                    continue
                theirs = np.zeros(shape, bool)
                theirs[at] = mine
                actions[theirs.reshape(-1)] = acts.plays(outputs[mine])
            executed[who, part] = np.asarray(actions).reshape(*shape, -1)
            gained, terminated, truncated = self.env.step(flat, actions)
            rewards[who, part] = gained.reshape(shape)
            ended = TERMINATED * terminated + TRUNCATED * truncated
            flags[who, part] = ended.reshape(shape) + EXPERT * ~own
            if ended.any():
                self._next(flat[ended > 0])
            row = part.stop
        for slot, error in self.env.broken.items():
            if slot // e in runs:
                errors.setdefault(slot // e, _prefixed(number, failure("environment", error)))
        found = {}
        for i, run in enumerate(runs):
            if run in errors:
                continue
            columns = (part[i] for part in (inputs, targets, executed, rewards, flags))
            owners = (np.arange(size) % e).astype(np.int32)
            found[run] = Round(*columns, slots=owners, queries=size)
            self._remember(run, found[run])
        return found, errors

    def _next(self, slots: np.ndarray) -> None:
        """Begins the next episode in these slots."""
        self._episode[slots] += 1
        self.env.begin(slots, [self._seed(slot) for slot in slots.tolist()])

    def _seed(self, slot: int) -> int:
        run, j = divmod(slot, self.envs)
        return derive(self.drivers[run].seed, "collect", j, int(self._episode[slot]))

    def _look(self, here: np.ndarray) -> tuple[Any, Any, dict[int, UserError]]:
        """What the slots (runs, e) show as rows, and the expert's labels; or what is wrong, by slot: an
        environment or the expert has raised, or numbers are not finite.
        """
        slots, broken = here.reshape(-1), self.env.broken
        wrong = {slot: failure("environment", error) for slot, error in broken.items() if slot in slots}
        if wrong:
            return None, None, wrong
        seen = self.env.observe(slots)
        rows = self.observations.rows(seen.batch)
        if len(bad := not_finite(rows)):
            return None, None, {int(slots[i]): nonsense(rows[i]) for i in bad}
        return rows, *self._ask(seen, here)

    def _ask(self, seen: Seen, here: np.ndarray) -> tuple[Any, dict[int, UserError]]:
        """The expert's labels; where it raises, each run's states are asked about apart, to find whose."""
        try:
            return self.expert.label(seen.batch, seen.infos), {}
        except Exception as error:
            whole = failure("expert", error)
        wrong = {}
        for slots in here if len(here) > 1 else ():
            try:
                self.expert.label(*self.env.observe(slots))
            except Exception as error:
                wrong[int(slots[0])] = failure("expert", error)
        # One that fails on a batch and on none of its parts fails for all of them.
        return None, wrong or {int(slots[0]): whole for slots in here}

    def _experts(self, labels: np.ndarray) -> np.ndarray:
        """The actions behind labels; a distribution is played by its mode."""
        acts = self.actions
        if self.expert.kind == "distribution":
            return acts.plays(labels)
        return labels.astype(acts.dtype).reshape(len(labels), *acts.shape)

    def _remember(self, run: int, round: Round) -> None:
        for j in range(self.envs):
            slot, mine = run * self.envs + j, slice(j, None, self.envs)
            ends = np.flatnonzero(round.flags[mine] & (TERMINATED | TRUNCATED))
            before = [] if len(ends) else [self._played[slot]]
            since = ends[-1] + 1 if len(ends) else 0
            self._played[slot] = np.concatenate([*before, round.executed[mine][since:]])

    def snapshot(self, run: int) -> list[dict[str, Any]]:
        """Where each environment of a run is: its episode, the actions played in it, the row it shows."""
        slots = np.arange(run * self.envs, (run + 1) * self.envs)
        rows = self.observations.rows(self.env.observe(slots).batch)
        return [
            {"episode": int(self._episode[slot]), "actions": self._played[slot], "row": row}
            for slot, row in zip(slots, rows, strict=True)
        ]

    def restore(self, run: int, snapshot: list[dict[str, Any]]) -> None:
        """Back to a snapshot, by beginning each episode with its seed and playing its actions again."""
        for j, kept in enumerate(snapshot):
            slot = run * self.envs + j
            self._episode[slot], self._played[slot] = int(kept["episode"]), kept["actions"]
            self.env.begin([slot], [self._seed(slot)])
            for action in kept["actions"]:
                played = np.asarray(action, self.actions.dtype).reshape(1, *self.actions.shape)
                _, terminated, truncated = self.env.step(np.array([slot]), played)
                if terminated[0] or truncated[0]:
                    raise UserError(
                        "resume: the environment does not replay: an episode under way ends earlier now."
                    )
        rows = self.snapshot(run)
        for now, kept in zip(rows, snapshot, strict=True):
            if now["row"].tobytes() != np.asarray(kept["row"]).tobytes():
                raise UserError(
                    f"resume: the environment does not replay: after {len(kept['actions'])} actions of "
                    f"episode {kept['episode']} its observation is another one now, so it cannot be "
                    "continued exactly."
                )


def not_finite(rows: np.ndarray) -> np.ndarray:
    """The numbers of rows (n, width) that hold a nan or an infinity."""
    if rows.dtype.kind != "f" or np.isfinite(rows).all():
        return np.zeros(0, np.int64)
    return np.flatnonzero(~np.isfinite(rows).all(axis=1))


def nonsense(row: np.ndarray) -> UserError:
    shown = np.array2string(row, threshold=12, precision=4, max_line_width=10_000)
    return UserError(f"environment: the observation {shown} is not finite.")


def failure(who: str, error: Exception) -> UserError:
    """Any error as a sentence of `who`, with the error behind it."""
    if isinstance(error, UserError):
        return error
    made = UserError(f"{who}: {' '.join(f'{type(error).__name__}: {error}'.split())[:300]}")
    made.__cause__ = error
    return made


def _prefixed(number: int, error: UserError) -> UserError:
    made = UserError(f"round {number}: {error}")
    made.__cause__ = error.__cause__
    return made
