"""What a run would do, and why, before it is begun."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, final

from .defaults import Choice, resolve
from .disk import to_plain
from .envs.gymnasium import maker
from .policies import Actions
from .runs.resuming import settings_at_start
from .runs.world import spaces_in
from .spec import RunSpec, describe

if TYPE_CHECKING:
    from .disk import Json
    from .spec import Environment, Setting


@final
class Explanation(tuple[Choice, ...]):
    """The choices of a run, in the order in which they were made; printed as a table."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Setting, value and reason in words."""
        return [(choice.setting, _shown(choice), choice.reason) for choice in self]

    def plain(self) -> list[dict[str, Json]]:
        """The choices as plain data."""
        return [
            {
                name: to_plain(value)
                for name, value in choice._replace(value=describe(choice.value))._asdict().items()
            }
            for choice in self
        ]

    def __repr__(self) -> str:
        rows = self.rows()
        wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
        return "\n".join(f"{name:<{wide[0]}}  {value:<{wide[1]}}  {reason}" for name, value, reason in rows)


def explain(
    env: Environment | RunSpec | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    **settings: Setting,
) -> Explanation:
    """What `imitate` would do with these settings, each choice with its reason. Nothing is played or written,
    and the expert is not asked. With `resume` it is what the run in `out` would go on with.

    >>> import understudy
    >>> choices = understudy.explain("CartPole-v1", policy="linear", budget=100)
    >>> [choice.value for choice in choices if choice.setting in ("ask", "policy", "solver")]
    ['distance:5', 'linear', 'newton']
    """
    spec = env if isinstance(env, RunSpec) and not settings else None
    if spec is None:
        spec = env.replace(**settings) if isinstance(env, RunSpec) else RunSpec.of({"env": env, **settings})
    make = maker(spec.env, spec.env_kwargs, spec.student_infos)
    with contextlib.closing(make()) as spaces:
        world = spaces_in(make, spaces, spec, probe=False)
    actions, before = Actions.of(world.action_space), settings_at_start(out) if resume else None
    return Explanation(resolve(spec, world.shown, actions, world.expert, before).choices)


def _shown(choice: Choice) -> str:
    """A value in words, with the moment at which data decide."""
    words = {None: "none", True: "yes", False: "no"}
    value = describe(choice.value)
    known = value is None or isinstance(value, bool)
    text = words[value] if known else f"{value:g}" if isinstance(value, float) else str(value)
    text = " or ".join(choice.candidates) or text
    return text if choice.when == "now" else f"{text} ({choice.when})"
