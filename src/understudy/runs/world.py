"""Where runs happen: an environment, and an expert in it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator, Hashable, Mapping
from typing import TYPE_CHECKING, Any, final

from .. import experts
from ..defaults import plan_of
from ..envs.gymnasium import Maker, VectorEnv, has_limit, maker, vector
from ..envs.pure import PureEnv
from ..errors import UserError
from ..parts import Spaces, nobody
from ..policies import Actions, Observations
from ..policies.sight import Sight, without_infos
from ..spec import WORLD, RunSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from ..experts import Infos, Nested


@final
class World:
    """Where runs happen: an environment, as often as needed, and an expert in it. Runs of one world, one
    after another, share what is expensive to make.

    Attributes:
      make: how the environment is made.
      spaces: what there is to see and to play, with the expert.
      pure: the environment, where it can stay on the device.
      cache: what runs of this world have found out that is the same for all of them.
      ends: whether episodes end by themselves after some number of steps, as far as the environment says.
    """

    def __init__(self, spec: RunSpec):
        self.make = maker(spec.env, spec.env_kwargs, spec.student_infos)
        self.first = self.make()
        self.ends = has_limit(self.first)
        self.pure = self.first if isinstance(self.first, PureEnv) else None
        self.cache: dict[Hashable, Any] = {}
        self._idle: dict[tuple[int, int], list[VectorEnv]] = {}
        try:
            self.spaces = spaces_in(self.make, self.first, spec)
        except BaseException:
            self.first.close()
            raise

    @contextlib.contextmanager
    def lend(self, count: int, threads: int = 1) -> Generator[VectorEnv]:
        """So many slots of the environment. One that begins anew with every episode serves later runs too."""
        idle = self._idle.get((count, threads))
        if idle:
            env = idle.pop()
        else:
            first, self.first = self.first, None
            infos = self.spaces.expert.needs_infos
            env = vector(self.make, count, threads=threads, infos=infos, first=first)
        try:
            yield env
        finally:
            if env.many and not env.broken:
                self._idle.setdefault((count, threads), []).append(env)
            else:
                env.close()

    def close(self) -> None:
        """Closes all environments."""
        for env in [env for idle in self._idle.values() for env in idle]:
            env.close()
        self._idle.clear()
        if self.first is not None:
            self.first.close()
            self.first = None


@final
class Worlds:
    """The worlds of runs that are played one after another, each made once; the last few stay open."""

    def __init__(self) -> None:
        self._open: dict[str, World] = {}

    def of(self, spec: RunSpec) -> World:
        """Where a run with these settings happens."""
        key = spec.key(*WORLD)
        if key not in self._open:
            self._open[key] = World(spec)
        self._open[key] = self._open.pop(key)  # the last one is the youngest
        return self._open[key]

    def close(self, but: int = 0) -> None:
        """Closes all of them, `but` for the last few."""
        while len(self._open) > but:
            self._open.pop(next(iter(self._open))).close()


def spaces_of(spec: RunSpec) -> Spaces:
    """The spaces and the expert of a spec; an environment is made for it, and closed."""
    with contextlib.closing(World(spec)) as world:
        return world.spaces


def spaces_in(make: Maker, spaces: Any, spec: RunSpec, *, probe: bool = True) -> Spaces:
    """The spaces of an environment that `make` has made, and the expert in it. A function whose kind of
    answer is not known is asked once about a made-up observation, but not without `probe`.
    """
    whole, acts, expert = spaces.observation_space, spaces.action_space, spec.expert
    seen, sees = whole, spec.student_sees
    sight = None if sees is None else Sight.of(sees, "student_sees")
    # What cannot be a row of numbers is refused before anyone is asked about it.
    _ = Observations.of(whole) if sight is None else sight.observations(whole), Actions.of(acts)
    if spec.student_infos:
        seen = spaces.env.observation_space  # of the environment itself, without the infos beside it
    options = spec.options("expert")
    if spec.env_kwargs and (expert is None or (isinstance(expert, str) and expert in experts.names())):
        # Planners plan in the environment itself, so a shipped expert gets its keywords.
        options.setdefault("env_kwargs", dict(spec.env_kwargs))
    where: dict[str, Any] = {
        "env_id": make.name if make.by_id else getattr(spaces, "serves", None),
        "observation_space": seen if probe else None,
        "action_space": acts,
    }
    try:
        if spec.experts is not None:
            teacher = experts.several(dict(spec.experts), spec.route, **where)
        else:
            teacher = experts.resolve(expert, **where, **options)
    except UserError:
        if expert is not None or spec.experts is not None or plan_of(spec).total:
            raise
        teacher = nobody(acts)  # demonstrations alone need no expert
    if spec.workers is not None:
        count, kind = spec.workers
        if kind != "threads":
            from .processes import in_workers

            teacher = in_workers(teacher, spec, count, kind)
        teacher = dataclasses.replace(teacher, workers=count)
    if spec.student_infos:
        asked, routed = teacher.ask, teacher.route
        plain = not isinstance(getattr(seen, "spaces", None), Mapping)

        def ask(batch: Nested, infos: Infos) -> ArrayLike:
            return asked(without_infos(batch, plain), infos)

        def route(batch: Nested, infos: Infos) -> np.ndarray:
            assert routed is not None
            return routed(without_infos(batch, plain), infos)

        teacher = dataclasses.replace(
            teacher,
            ask=ask,
            route=None if routed is None else route,
            observation_space=whole,
            pure=None,
        )
    return Spaces(observation_space=whole, action_space=acts, expert=teacher, sight=sight, env=make.name)
