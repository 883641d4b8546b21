"""All settings of a run: one frozen dataclass with its defaults, its presets and its checks.

`imitate` builds it from keywords, the command line from options, a study from the points of a grid, a worker
process from JSON; ``--config`` reads it from TOML and config.json keeps it. Importing this file is cheap: the
registries of learners, losses, policies and solvers are imported when a spec is made.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from typing import Any, final

from .. import disk
from ..errors import UserError, among
from . import timetable
from .presets import PRESETS, for_person, spread
from .settings import FIELDS, OPTIONS, PARTS, Settings, default
from .timetable import Mixing, mixing
from .values import checked, describe, fits, number_or_word, read_toml, stated

LOOKS, JUDGING, CHOSEN = 10, 20, 50
"""Episodes where nothing is said: of a look on the way; of the policy that is kept; of one that was chosen by
looks of up to as many."""


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RunSpec(Settings):
    """A run, before it begins. None stands for what the preset, the policy or the solver decides.

    Names are checked against the registries, numbers against their limits; what does not fit is refused with
    one sentence. Objects (a learner, a policy, a loss, a solver, an expert, a function that makes the
    environment) are accepted in place of names; config.json then describes them.

    >>> spec = RunSpec(env="CartPole-v1", learner="ftrl", eta=0.1, rounds=3, interactions=50)
    >>> spec.total, spec.options("learner"), spec.changes()["eta"]
    (150, {'eta': 0.1}, 0.1)
    >>> RunSpec(env="CartPole-v1", eta=0.1)
    Traceback (most recent call last):
    understudy.errors.UserError: learner: 'ftl' does not take eta; it takes radius.
    """

    def __post_init__(self) -> None:
        for field in FIELDS.values():
            object.__setattr__(self, field.name, checked(field, getattr(self, field.name)))
        for part in PARTS:
            self._gather(part)
        if isinstance(self.expert, str) and self.expert.startswith("person:"):
            door = self.expert.removeprefix("person:")
            object.__setattr__(self, "expert", "person")
            object.__setattr__(self, "expert_options", {**self.expert_options, "door": door})
        if not isinstance(self.env, str) and not callable(self.env) and not hasattr(self.env, "reset"):
            what = "none was named; give" if self.env is None else f"{self.env!r} is not"
            raise UserError(f"env: {what} the id of an environment, such as 'Hopper-v5'.")
        object.__setattr__(self, "beta", number_or_word(self.beta))
        object.__setattr__(self, "encoder", "none" if self.encoder is None else self.encoder)
        if self.by_person:
            self._for_person()
        self._spread()
        if self.interactions is None:
            object.__setattr__(self, "interactions", timetable.pace(self.env, self.envs))
        _ = self.mixing, self.workers, self.student_infos
        if self.expert_sees is not None:
            _sight(self.expert_sees, "expert_sees")
        if self.rounds == 0 and self.demos is None:
            raise UserError("rounds: 0 is not accepted without demonstrations (demos) to learn from.")
        if self.best and self.episodes == 0:
            raise UserError(
                "best: yes needs evaluations to choose by, and episodes is 0; give episodes, or no."
            )
        if self.init is not None and self.standardise:
            raise UserError("standardise: with init the observations are standardised as init was; say no.")
        judged = self.judged
        if not isinstance(self.comparator, str) or not self.comparator.isalpha():
            object.__setattr__(self, "comparator", tuple(sorted(judged)))
        from ..objectives import parse_memory

        parse_memory(self.memory)
        if self.moment == "spot" and (self.rule.count is not None or not hasattr(self.rule, "gate")):
            raise UserError(
                f"moment: 'spot' needs a rule with a threshold, as in disagreement:0.05; ask is {self.ask!r}."
            )
        if self.by_person and self.expert_episodes:
            raise UserError(
                f"expert_episodes: a person is not measured; {self.expert_episodes} is not accepted."
            )
        if self.moment == "spot" and self.by_person and self.envs > 1:
            raise UserError(f"envs: a person who takes over on the spot drives one, not {self.envs}.")
        if self.moment == "spot" and self.ask == "driven" and not self.by_person:
            raise UserError("ask: 'driven' on the spot is for a person (--expert person), who takes over.")
        for part in PARTS[:4]:
            fits(part, getattr(self, part), self.options(part))

    def _gather(self, part: str) -> None:
        """Moves options that have a field of their own out of the mapping: one spelling for one run."""
        options = getattr(self, f"{part}_options")
        given = {name: value for name, value in options.items() if value is not None}
        for name in [name for name in given if name in OPTIONS[part]]:
            value = checked(FIELDS[name], given.pop(name))
            if getattr(self, name) not in (None, False, value):
                raise UserError(f"{name}: it is {getattr(self, name)!r} and, in {part}_options, {value!r}.")
            object.__setattr__(self, name, value)
        object.__setattr__(self, f"{part}_options", given)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RunSpec:
        """The spec of named settings; None counts as not given, and a name that does not exist is refused."""
        for name in settings:
            among("run", name, FIELDS)
        return cls(**stated(settings))

    @classmethod
    def read(cls, path: str | os.PathLike[str], **changes: Any) -> RunSpec:
        """The spec in a TOML file, with `changes` that win over it."""
        return cls.of(read_toml(path, "config") | changes)

    def replace(self, **changes: Any) -> RunSpec:
        """The same spec with other settings."""
        return RunSpec.of({name: getattr(self, name) for name in FIELDS} | changes)

    def options(self, part: str) -> dict[str, Any]:
        """The options that were given for a part, by name."""
        fields = {name: getattr(self, name) for name in OPTIONS[part]}
        # By identity: a step size of 0.0 equals False, and must reach what refuses it.
        given = {name: value for name, value in fields.items() if value is not None and value is not False}
        return given | dict(getattr(self, f"{part}_options"))

    def decided(self, name: str) -> Any:
        """A setting, or what the preset decides where it was not given."""
        value, preset = getattr(self, name), PRESETS[self.preset]
        if self.by_person:
            preset = dataclasses.replace(preset, first_round="agent", noise=0.1)
        return getattr(preset, name) if value is None else value

    @property
    def by_person(self) -> bool:
        """Whether the expert is a person."""
        return self.expert == "person" or getattr(self.expert, "person", None) is not None

    def _for_person(self) -> None:
        """Sets what was not given for a run whose expert is a person, see `presets.for_person`."""
        made = for_person(
            self.budget,
            self.rounds,
            spot=self.moment == "spot",
            vectors=self.policy not in ("nature_cnn", "camera", "tabular"),
        )
        if self.policy == "mlp":
            made["widths"] = (64, 64)
            made |= {"max_iterations": 500} if self.solver == "auto" else {}
        self._fill(made)

    def _spread(self) -> None:
        """Sets how a budget of labels is spent, where the preset practical decides and nothing was said about
        asking. It is part of the spec from then on, so that a run that is extended goes on in the same way.
        """
        free = self.ask is None and self.rounds is None and self.beta == 0.0 and self.learner != "bc"
        if self.budget is None or self.preset != "practical" or not free or self.moment != "after":
            return
        made = spread(self.budget, vectors=self.policy not in ("nature_cnn", "tabular", "gru"))
        if self.demos is not None:
            del made["first_interactions"]
        if self.best is False or self.episodes == 0:
            del made["best"], made["evaluate_every"]
        self._fill(made)

    def _fill(self, made: Mapping[str, Any]) -> None:
        """Sets those of these settings that still have their defaults."""
        for name, value in made.items():
            if getattr(self, name) == default(FIELDS[name]):
                object.__setattr__(self, name, value)

    @functools.cached_property
    def rule(self) -> Any:
        """The query rule."""
        from ..asking import rule

        return rule(self.decided("ask"), self.options("ask"))

    @functools.cached_property
    def rounds_planned(self) -> tuple[tuple[int, int], ...]:
        """Interactions and the most queries of every round, see `timetable.planned`."""
        return timetable.planned(self)

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """Interactions of every round."""
        return tuple(size for size, _ in self.rounds_planned)

    @property
    def total(self) -> int:
        """Interactions of the whole run."""
        return sum(self.sizes)

    @functools.cached_property
    def mixing(self) -> Mixing:
        """Who acts, round by round."""
        beta = 1.0 if isinstance(self.learner, str) and self.learner == "bc" else self.beta
        return mixing(beta, first_round=self.decided("first_round"))

    @functools.cached_property
    def judged(self) -> frozenset[int]:
        """The rounds after which the best in hindsight is found."""
        return timetable.judged(self.comparator, len(self.sizes))

    @functools.cached_property
    def evaluated(self) -> frozenset[int]:
        """The rounds after which the policy is evaluated."""
        every, rounds = self.evaluate_every, len(self.sizes)
        also = set(range(every, rounds + 1, every)) if every else set()
        return frozenset({rounds} | also) if self.looks else frozenset()

    def ends(self, t: int, queries: int) -> bool:
        """Whether round t, after which there are so many queries, is the last."""
        return t >= len(self.sizes) or (self.budget is not None and queries >= self.budget)

    def due(self, chosen: frozenset[int], t: int, queries: int) -> bool:
        """Whether round t is among those `chosen`; what is due after the last planned round is due after the
        one that spends the budget.
        """
        return t in chosen or (self.ends(t, queries) and len(self.sizes) in chosen)

    @property
    def workers(self) -> tuple[int, bool] | None:
        """How many questions to a slow expert are under way at once, and whether in processes."""
        if self.expert_workers is None:
            return None
        kind, _, count = str(self.expert_workers).rpartition(":")
        if kind not in ("", "threads", "processes") or not count.isdecimal() or int(count) < 1:
            raise UserError(
                f"expert_workers: {self.expert_workers!r} is not a whole number ≥ 1 or processes:N."
            )
        return int(count), kind == "processes"

    @property
    def name(self) -> str:
        """What the learner is called."""
        if isinstance(self.learner, str):
            return self.learner
        return getattr(self.learner, "name", type(self.learner).__name__)

    @property
    def expert_measured(self) -> int:
        """Episodes that the expert is measured by."""
        return self.judging if self.expert_episodes is None else self.expert_episodes

    @property
    def looks(self) -> int:
        """Episodes of an evaluation on the way."""
        return LOOKS if self.episodes is None else self.episodes

    @property
    def judging(self) -> int:
        """Episodes of the last evaluation, of the policy that is kept."""
        if self.episodes is not None:
            return self.episodes
        return CHOSEN if self.decided("best") else JUDGING

    @property
    def student_infos(self) -> tuple[str, ...]:
        """The entries of the environment's info that the policy sees."""
        return () if self.student_sees is None else _sight(self.student_sees, "student_sees").infos

    def key(self, *names: str) -> str:
        """A text that two specs share where they agree in these settings."""
        return repr([describe(getattr(self, name)) for name in names])

    def plain(self) -> dict[str, Any]:
        """Every setting as plain data, objects described: what config.json keeps and resuming compares."""
        return {name: describe(getattr(self, name)) for name in FIELDS}

    def _unsaid(self, name: str) -> bool:
        """Whether a setting is what it is where nothing is said."""
        if name == "interactions":
            usual = timetable.pace(self.env, self.envs)
            return self.interactions == timetable.STEPS == usual and not self.by_person
        return getattr(self, name) == default(FIELDS[name])

    def changes(self) -> dict[str, Any]:
        """The settings that differ from their defaults, with env, learner and seed always: enough to make it
        again with `RunSpec.of`. Objects cannot be written down so, and are refused.
        """
        found = {}
        for name in FIELDS:
            value = getattr(self, name)
            if name not in ("env", "learner", "seed") and self._unsaid(name):
                continue
            try:
                found[name] = json.loads(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError):
                raise UserError(
                    f"{name}: {describe(value)!r} is an object, which a study cannot keep or send to a "
                    "worker; give its name, or module:name."
                ) from None
            if found[name] != disk.plain(value):
                raise UserError(
                    f"{name}: {value!r} has keys that are not text, which JSON cannot keep for a study."
                )
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSpec) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(json.dumps(self.plain(), sort_keys=True, default=str))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.plain().items() if not self._unsaid(name)}
        return f"RunSpec({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _sight(text: str, field: str) -> Any:
    from ..policies.sight import Sight

    return Sight.of(text, field)
