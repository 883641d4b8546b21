"""Collecting a round: exactly M interactions of every run, whoever acts, and the expert's labels for them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..envs.gymnasium import derive
from ..envs.pictures import Scene
from ..envs.vector import Seen, VectorEnv
from ..errors import UserError
from ..policies import Actions, History, Recalled, not_finite
from ..policies import Seen as Sees
from .collected import BREAK, EXPERT, TERMINATED, TRUNCATED, Driver, Round, not_finite_rows
from .journal import Kept
from .questions import Answers, Questions, failure, seen_together, some_of

if TYPE_CHECKING:
    from ..asking import Gate
    from .groups import Members

Asking = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
"""From a run, its round's inputs (m, width) and where the policy acted (m,) to the weights of the states in
the round's loss, 0 for those that the expert is not asked about, (m,). Where the expert acted it was asked.
"""


@final
class Collector:
    """The environments of n runs, `envs` slots each: slot i · envs + j is environment j of run i.

    Episode k of environment j of a run is seeded by (the run's seed, "collect", j, k). The label is always
    the expert's; the action played is the expert's with probability β, else the policy's. A quick expert is
    asked about every state when it is visited; a slow one, or one that a query rule spares, then only where
    it acts, and about the others (those that the rule chooses), at once, after the round.

    A policy with memory begins a round in the midst of an episode with what its new parameters remember of
    the last `burn` states; within the round its memory goes on, whoever acts.
    """

    def __init__(
        self,
        env: VectorEnv,
        questions: Questions,
        observations: Sees,
        actions: Actions,
        drivers: Sequence[Driver],
        envs: int = 1,
        *,
        burn: int = 0,
    ):
        self.env, self.questions, self.envs, self.drivers = env, questions, envs, list(drivers)
        self.expert = questions.expert
        self.observations, self.actions = observations, actions
        self._episode = np.full(len(drivers) * envs, -1)
        # Actions of the episode under way in every slot: with its seed they rebuild it.
        self._played = [np.zeros((0, actions.size), actions.dtype) for _ in self._episode]
        self._over = np.ones(len(self._episode), bool)  # the next step begins an episode
        self._history = History(observations, len(self._episode), keep=burn)
        self._found: dict[int, list[Kept]] = {}  # labels from before a break
        # For an expert who looks at pictures: what was played so far in the episode of every slot.
        self._trails: dict[int, list[Any]] | None = None if self.expert.person is None else {}

    def collect(
        self,
        runs: Sequence[int],
        size: int,
        *,
        betas: Sequence[float],
        number: int,
        acting: Callable[[Sequence[int]], list[Members]],
        asking: Asking | None = None,
        gates: Mapping[int, tuple[Gate | None, int]] | None = None,
        most: Mapping[int, int] | None = None,
        tick: Callable[..., None] | None = None,
    ) -> tuple[dict[int, Round], dict[int, UserError]]:
        """Round `number` of these runs, `size` interactions each; the rounds, and the errors of those that
        failed.

        `acting(chosen)` gives the policies of some of the runs, by architecture; `asking` is a query rule.
        `gates` are, by run, when the expert takes over on the spot (None: a person, who decides that) and
        how many steps it may drive at most;
        `most` is, by run, how many where β decides. `tick` is called after every step with the interactions
        and queries of a run so far.
        """
        e, n, k, acts, codec = self.envs, len(runs), self.actions.outputs, self.actions, self.observations
        slots = np.asarray(runs)[:, None] * e + np.arange(e)
        self.questions.begin(number)
        self._next(slots[self._over[slots]])
        by_expert, noise = np.empty((n, size), bool), np.zeros((n, size, k), np.float32)
        noisy = np.zeros(n, bool)
        for i, run in enumerate(runs):
            by_expert[i], drawn = self.drivers[run].draws(acts, number, size, betas[i])
            if most is not None:  # the budget: where it is spent, the policy acts
                by_expert[i] &= np.cumsum(by_expert[i]) <= most[run]
            if drawn is not None:
                noise[i], noisy[i] = drawn, True
        inputs, targets = np.empty((n, size, codec.width), codec.dtype), np.zeros((n, size, k), np.float32)
        executed = np.empty((n, size, acts.size), acts.dtype)
        rewards, flags = np.empty((n, size), np.float32), np.zeros((n, size), np.uint8)
        labelled, new = np.zeros((n, size), bool), np.zeros((n, size), bool)
        later: list[tuple[Seen, np.ndarray, np.ndarray]] = []  # states to ask about after the round
        wait = self.questions.slow or asking is not None
        weights = np.full((n, size), 1.0 / size)
        errors: dict[int, UserError] = {}
        live, policies, taken, given = np.arange(n), None, np.zeros((n, e), bool), None
        carried: dict[int, np.ndarray] = {}  # the states of policies with memory, by run
        row = begun = self._recover(runs, size, inputs, targets, executed, rewards, flags)
        labelled[:, :row] = new[:, :row] = True

        def note(place: Any, shape: tuple[int, ...], answers: Answers) -> None:
            has = answers.answered
            if answers.whole:
                targets[place] = acts.targets(answers.labels, self.expert.kind).reshape(*shape, k)
                labelled[place] = new[place] = True
                return
            if has.any():
                found = np.zeros((len(has), k), np.float32)
                found[has] = acts.targets(answers.labels[has], self.expert.kind)
                targets[place] = found.reshape(*shape, k)
            labelled[place], new[place] = has.reshape(shape), answers.new.reshape(shape)

        while row < size and len(live):
            # The last step of a round may be played in some of the slots only.
            part = slice(row, min(row + e, size))
            here = slots[live, : part.stop - row]
            flat, shape = here.reshape(-1), here.shape
            place = (slice(None) if len(live) == n else live, part)
            seen, rows, wrong = self._look(flat)
            if gates and not wrong and given is None:
                self._take_over(gates, runs, live, seen, rows.reshape(*shape, -1), taken, by_expert, part)
            now = by_expert[place] if wait else None  # what is asked about at once; None: all states
            if not wrong and given is None:
                given, wrong = self._answers(seen, rows, flat, now)
            if wrong:  # what was given to the other runs stays for the next turn, in the same states
                bad = {slot // e: error for slot, error in wrong.items()}
                errors |= {run: _prefixed(number, error) for run, error in bad.items()}
                live = live[[runs[i] not in bad for i in live.tolist()]]
                policies = None
                continue
            answers, given = given, None
            inputs[place] = rows.reshape(*shape, -1)
            if now is None or (answers is not None and now.all()):
                note(place, shape, answers)  # type: ignore[arg-type] # there are, where all are asked about
            else:
                asked, others = (_places(live, row, chosen) for chosen in (now, ~now))
                if answers is not None:
                    note(asked, (len(asked[0]),), answers)
                later.append((_copied(seen, np.flatnonzero(~now)), *others))
            if self.questions.slow and now is not None and (silent := now & ~labelled[place]).any():
                by_expert[_places(live, row, silent)] = False  # the policy acts in its place
                policies = None
            if policies is None:
                driven = [i for i in live.tolist() if not by_expert[i].all()]
                where = {runs[i]: at for at, i in enumerate(live.tolist())}
                policies = [
                    (group, np.array([where[run] for run in group.runs]))
                    for group in acting([runs[i] for i in driven])
                ]
                loud = noisy[live]
                for group, _ in policies:
                    self._warm(group, carried)
            actions = self._experts(answers, now, len(flat))
            for group, at in policies:
                mine = ~by_expert[place][at]
                if not mine.any() and not group.memory:
                    continue
                outputs = self._outputs(group, rows.reshape(*shape, -1)[at], mine, carried)
                if not mine.any():
                    continue
                if loud[at].any():
                    chosen = loud[at]
                    outputs[chosen] = outputs[chosen] + noise[live[at[chosen]], part]
                if len(at) == len(live) and mine.all():
                    actions = acts.plays(outputs.reshape(len(flat), -1))
                    continue
                theirs = np.zeros(shape, bool)
                theirs[at] = mine
                actions[theirs.reshape(-1)] = acts.plays(outputs[mine])
            executed[place] = np.asarray(actions).reshape(*shape, -1)
            if self._trails is not None:
                for slot, action in zip(flat.tolist(), actions, strict=True):
                    self._trails[slot].append(np.array(action))
            gained, terminated, truncated = self.env.step(flat, actions)
            self._history.advance(flat, rows)
            rewards[place] = gained.reshape(shape)
            ended = terminated | truncated
            if ended.any():
                flags[place] = (TERMINATED * terminated + TRUNCATED * truncated).reshape(shape)
                self._next(flat[ended])
                taken[live, : shape[1]] &= ~ended.reshape(shape)
            row = part.stop
            if tick is not None:
                tick("collecting", row, int(new[0].sum()) if wait else row)
        flags[:, begun:row][by_expert[:, begun:row]] += EXPERT
        for slot, error in self.env.broken.items():
            if slot // e in runs:
                errors.setdefault(slot // e, _prefixed(number, failure("environment", error)))
        if asking is not None:
            for i in live.tolist():
                weights[i] = asking(runs[i], inputs[i], ~by_expert[i])
                weights[i, :begun] = np.maximum(weights[i, :begun], 1.0 / size)  # they have their labels
        if later and len(live):
            place = [np.concatenate(axis) for axis in ([one[1] for one in later], [one[2] for one in later])]
            states = seen_together([one[0] for one in later])
            errors |= self._after(states, runs, place, weights, inputs, note, number, errors)
        found = {}
        for i, run in enumerate(runs):
            if run in errors:
                continue
            columns = (part[i] for part in (inputs, targets, executed, rewards, flags))
            owners, has, asked = (np.arange(size) % e).astype(np.int32), labelled[i], weights[i] > 0
            if asked.any() and not has.any():
                many = int(asked.sum())
                errors[run] = UserError(f"round {number}: the expert gave no answer in any of {many} states.")
                continue
            if not has[asked].all():  # those with an answer stand for the others
                weights[i] *= weights[i].sum() / weights[i, has].sum()
            found[run] = Round(
                *columns,
                slots=owners,
                weights=np.where(has, weights[i], 0.0),
                queries=int(new[i].sum()),
                unanswered=int(asked.sum() - has.sum()),
            )
            self._remember(run, found[run], begun)
        return found, errors

    def _warm(self, group: Members, states: dict[int, np.ndarray]) -> None:
        """Sets the states (e, memory) of runs that have none yet, from the last states of their slots."""
        new = [run for run in group.runs if run not in states] if group.memory else []
        if not new:
            return
        e, size = self.envs, group.memory
        warm = {run: np.zeros((e, size), np.float32) for run in group.runs}
        kept = np.stack([self._history.kept[run * e : (run + 1) * e] for run in group.runs])
        for j in range(kept.shape[2] - group.burn, kept.shape[2]):
            self._outputs(group, kept[:, :, j], np.ones(kept.shape[:2], bool), warm)
        states |= {run: warm[run] for run in new}

    def _outputs(
        self, group: Members, rows: np.ndarray, mine: np.ndarray, states: dict[int, np.ndarray]
    ) -> np.ndarray:
        """The outputs of a group for rows (runs, e, width); states of policies with memory go one step on."""
        if not group.memory:
            return group.outputs(rows, mine)
        here = np.stack([states[run][: rows.shape[1]] for run in group.runs])
        outputs = group.outputs(rows, mine, here)
        for run, state in zip(group.runs, here, strict=True):
            states[run][: rows.shape[1]] = state
        return outputs

    def _recover(self, runs: Sequence[int], size: int, *columns: np.ndarray) -> int:
        """The first rows of a round, from labels that were given before a break; what was played in their
        states is not known. Only for a run alone.
        """
        found = self._found.pop(runs[0], []) if len(runs) == 1 else []
        count = min(len(found), size) // self.envs * self.envs
        if count:
            inputs, targets, executed, rewards, flags = (column[0, :count] for column in columns)
            labels = np.stack([one.label for one in found[:count]])
            inputs[:] = np.stack([np.asarray(one.row) for one in found[:count]])
            targets[:] = self.actions.targets(labels, self.expert.kind)
            executed[:], rewards[:], flags[:] = 0, np.nan, BREAK
        return count

    def _after(
        self,
        states: Seen,
        runs: Sequence[int],
        place: Sequence[np.ndarray],
        weights: np.ndarray,
        inputs: np.ndarray,
        note: Callable[[Any, tuple[int, ...], Answers], None],
        number: int,
        errors: Mapping[int, UserError],
    ) -> dict[int, UserError]:
        """Asks about the states at `place` (runs, rows) that have a weight, all runs' at once; the errors, by
        run, of a quick expert that raises.
        """
        going = np.array([run not in errors for run in runs])
        chosen = np.flatnonzero((weights[tuple(place)] > 0) & going[place[0]])
        if not len(chosen):
            return {}
        where = tuple(axis[chosen] for axis in place)
        owners = np.asarray(runs)[where[0]]
        answers = self.questions.put(some_of(states, chosen), owners, inputs[where])
        note(where, (len(chosen),), answers)
        if self.questions.slow:
            return {}
        return {int(owners[i]): _prefixed(number, error) for i, error in answers.errors.items()}

    def _next(self, slots: np.ndarray) -> None:
        """Begins the next episode in these slots."""
        if self.expert.on_reset is not None and len(slots):
            self.expert.on_reset()
        self._episode[slots] += 1
        self._over[slots] = False
        self._history.begin(slots)
        if self._trails is not None:
            self._trails |= {slot: [] for slot in slots.tolist()}
        self.env.begin(slots, [self._seed(slot) for slot in slots.tolist()])

    def _seed(self, slot: int) -> int:
        run, j = divmod(slot, self.envs)
        return derive(self.drivers[run].seed, "collect", j, int(self._episode[slot]))

    def _take_over(
        self,
        gates: Mapping[int, tuple[Gate | None, int]],
        runs: Sequence[int],
        live: np.ndarray,
        seen: Seen,
        rows: np.ndarray,
        taken: np.ndarray,
        by_expert: np.ndarray,
        part: slice,
    ) -> None:
        """Enters in `taken` (n, e) and `by_expert` (n, size) where the expert drives in this step."""
        for at, i in enumerate(live.tolist()):
            if runs[i] not in gates:
                continue
            gate, most = gates[runs[i]]
            here = slice(0, part.stop - part.start)
            left = max(most - int(by_expert[i, : part.start].sum()), 0)
            if gate is None:
                drives = np.array([left > 0 and self.questions.takes_over(seen)])
            else:
                drives = gate.driving(rows[at], taken[i, here])
            taken[i, here] = drives & (np.cumsum(drives) <= left)
            by_expert[i, part] = taken[i, here]

    def _look(self, slots: np.ndarray) -> tuple[Any, Any, dict[int, UserError]]:
        """What the slots show, as rows too; or what is wrong, by slot: an environment has raised, or numbers
        are not finite.
        """
        broken = self.env.broken
        wrong = {slot: failure("environment", error) for slot, error in broken.items() if slot in slots}
        if wrong:
            return None, None, wrong
        seen = self.env.observe(slots)
        rows = self._history.see(slots, seen.batch)
        if self._trails is not None:
            seen = Seen(seen.batch, [{"scene": self._scene(slot)} for slot in slots.tolist()])
        return seen, rows, {int(slots[i]): not_finite(rows[i]) for i in not_finite_rows(rows)}

    def _scene(self, slot: int) -> Scene:
        """How the state that a slot shows came about."""
        assert self._trails is not None
        if slot not in self._trails:  # resumed
            acts = self.actions
            self._trails[slot] = [np.asarray(a, acts.dtype).reshape(acts.shape) for a in self._played[slot]]
        trail = self._trails[slot]
        return Scene(self._seed(slot), trail, len(trail))

    def _answers(
        self, seen: Seen, rows: np.ndarray, slots: np.ndarray, now: np.ndarray | None
    ) -> tuple[Answers | None, dict[int, UserError]]:
        """The expert's answers to those states that are asked `now` (None where none is), and why a quick one
        gives none, by slot; then the answers are those to the other runs.
        """
        if now is not None and not now.any():
            return None, {}
        if now is None or now.all():
            answers = self.questions.put(seen, slots // self.envs, rows, live=True)
        else:
            some = np.flatnonzero(now)
            answers = self.questions.put(some_of(seen, some), slots[some] // self.envs, rows[some], live=True)
            slots = slots[some]
        if not answers.errors or self.questions.slow:
            return answers, {}
        bad = {int(slots[i]): error for i, error in answers.errors.items()}
        fine = ~np.isin(slots // self.envs, [slot // self.envs for slot in bad])
        if not fine.any():
            return None, bad
        return Answers(answers.labels[fine], answers.answered[fine], answers.new[fine], {}), bad

    def _experts(self, answers: Answers | None, now: np.ndarray | None, count: int) -> np.ndarray:
        """The actions behind answers, zeros where there are none; a distribution is played by its mode."""
        acts = self.actions
        if answers is not None and (answers.whole or answers.answered.any()):
            labels = answers.labels
            if self.expert.kind == "distribution":
                played = acts.plays(labels)
            else:
                played = labels.astype(acts.dtype).reshape(len(labels), *acts.shape)
            if now is None or now.all():
                return played
            actions = np.zeros((count, *acts.shape), acts.dtype)
            actions[now.reshape(-1)] = played
            return actions
        return np.zeros((count, *acts.shape), acts.dtype)

    def _remember(self, run: int, round: Round, begun: int) -> None:
        for j in range(self.envs):
            slot, mine = run * self.envs + j, slice(begun + j, None, self.envs)
            ends = np.flatnonzero(round.flags[mine] & (TERMINATED | TRUNCATED))
            before = [] if len(ends) else [self._played[slot]]
            since = ends[-1] + 1 if len(ends) else 0
            self._played[slot] = np.concatenate([*before, round.executed[mine][since:]])

    def snapshot(self, run: int) -> list[dict[str, Any]]:
        """Where each environment of a run is: its episode, the actions played in it, the row it shows."""
        slots = np.arange(run * self.envs, (run + 1) * self.envs)
        if self._over[slots].any():  # nothing is under way yet
            nothing = np.zeros(0, self.observations.dtype)
            return [{"episode": -1, "actions": self._played[slot], "row": nothing} for slot in slots]
        rows = self._history.see(slots, self.env.observe(slots).batch)
        return [
            {"episode": int(self._episode[slot]), "actions": self._played[slot], "row": row}
            for slot, row in zip(slots, rows, strict=True)
        ]

    def restore(self, run: int, snapshot: list[dict[str, Any]]) -> int:
        """Back to a snapshot, by beginning each episode with its seed and playing its actions again.

        An expert that remembers is reset, and asked about every state again; gives the number of such calls.
        """
        asked = 0
        for j, kept in enumerate(snapshot):
            slot = run * self.envs + j
            if kept["episode"] < 0:
                continue
            self._episode[slot], self._played[slot] = int(kept["episode"]), kept["actions"]
            self._over[slot] = False
            self._history.begin([slot])
            self.env.begin([slot], [self._seed(slot)])
            remembers = self.expert.on_reset is not None
            if remembers:
                self.expert.on_reset()
            for action in kept["actions"]:
                if remembers:
                    self._shown(slot)
                    asked += 1
                if isinstance(self.observations, Recalled):
                    here = np.array([slot])
                    self._history.advance(here, self._history.see(here, self.env.observe(here).batch))
                played = np.asarray(action, self.actions.dtype).reshape(1, *self.actions.shape)
                _, terminated, truncated = self.env.step(np.array([slot]), played)
                if slot in self.env.broken:
                    raise failure("environment", self.env.broken[slot])
                if terminated[0] or truncated[0]:
                    raise UserError(
                        "resume: the environment does not replay: an episode under way ends earlier now; "
                        "--resume=new-episode goes on with a new one."
                    )
        rows = self.snapshot(run) if snapshot else []
        for now, kept in zip(rows, snapshot, strict=True):
            if now["row"].tobytes() != np.asarray(kept["row"]).tobytes():
                raise UserError(
                    f"resume: the environment does not replay: after {len(kept['actions'])} actions of "
                    f"episode {kept['episode']} its observation is another one now, so it cannot be "
                    "continued exactly; --resume=new-episode goes on with a new one."
                )
        return asked

    def _shown(self, slot: int) -> None:
        """Asks the expert about the state of a slot, for what it will remember of it."""
        try:
            self.expert.label(*self.env.observe(np.array([slot])))
        except Exception as error:
            raise failure("expert", error) from error

    def resume_anew(self, run: int, snapshot: list[dict[str, Any]], found: list[Kept]) -> None:
        """On from a snapshot with new episodes, for environments that cannot play the old ones again; the
        labels found of the round under way are its first samples.
        """
        for j, kept in enumerate(snapshot):
            self._episode[run * self.envs + j] = int(kept["episode"])
        self._found[run] = found


def _places(live: np.ndarray, row: int, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the chosen (live, e) of a step that begins at `row` are in a round of all runs."""
    i, j = np.nonzero(chosen)
    return live[i], row + j


def _copied(seen: Seen, chosen: np.ndarray) -> Seen:
    """Some of what is seen, as it is now: environments may write over it."""
    return copy.deepcopy(some_of(seen, chosen.tolist()))


def _prefixed(number: int, error: UserError) -> UserError:
    made = UserError(f"round {number}: {error}")
    made.__cause__ = error.__cause__
    return made
