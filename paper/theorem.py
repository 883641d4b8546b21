"""The theorem on FTL, exhibited: constant regret where the class holds the expert, and not where it cannot.

Nothing is sampled: the policy's discounted occupancy d^{π_t} is solved for, and the round's loss is the
expectation ``l_t(π) = Σ_s d^{π_t}(s) D(π(s), π_e(s))`` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from understudy import disk
from understudy.envs.tabular import MDP, cliff_walk, fork, random_mdp
from understudy.errors import UserError, check_int
from understudy.learners import ftl
from understudy.losses import Absolute, Loss, Squared
from understudy.objectives import batch
from understudy.online import make_game
from understudy.policies import Tabular
from understudy.programs import compiled
from understudy.regret.bounds import ftl_interpolation
from understudy.report import plots
from understudy.report.style import INK, look

NEAREST = 0.9999
SQUARED = Squared()


class Exhibit(NamedTuple):
    """One run of FTL with exact expected losses.

    losses (T,): l_t(π_t); regret (T,): R(t); bound (T,): C(1 − γ^t)/(1 − γ); holds: whether R(t) ≤ bound
    in every round.
    """

    name: str
    losses: np.ndarray
    regret: np.ndarray
    bound: np.ndarray

    @property
    def holds(self) -> bool:
        return bool(np.all(self.regret <= self.bound + 1e-9))


def play(
    mdp: MDP,
    first: np.ndarray,
    rounds: int,
    *,
    name: str,
    loss: Loss = SQUARED,
    clusters: np.ndarray | None = None,
) -> Exhibit:
    """FTL from the policy `first` (S, A); with `clusters` (S,) it sees only the cluster of a state."""
    seen = np.arange(len(mdp.start)) if clusters is None else clusters
    policy = Tabular(states=int(seen.max()) + 1)
    with jax.enable_x64(True):
        params = jnp.asarray([first[seen == c].mean(axis=0) for c in range(policy.states)])
        game = make_game(policy, loss, ftl(), "auto", params)
        one = batch(seen, mdp.expert)
        state = game.init(params, game.empty(params, one, rounds * len(seen)))
        step = compiled(game)
        rows: list[Any] = []
        for t in range(rounds):
            table = np.clip(np.asarray(state.learner.params), 0.0, 1.0)[seen]
            table = table / table.sum(axis=1, keepdims=True)
            one = batch(seen, mdp.expert, np.maximum(mdp.occupancy(table), 0.0))
            state, record = step(state, one, jax.random.key(t), jnp.asarray(True))
            rows.append(jax.device_get(record))
    losses, regret = (np.array([float(row[column]) for row in rows]) for column in ("loss", "regret"))
    # C: the largest squared, or absolute, distance between two distributions of actions.
    limits = (ftl_interpolation(C=2.0, gamma=mdp.gamma, rounds=t) for t in range(1, rounds + 1))
    return Exhibit(name, losses, regret, np.array([one.value for one in limits]))


def exhibits(
    *,
    gamma: float = 0.9,
    rounds: int = 40,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Exhibit]:
    """A path that attains the bound, a random MDP below it, and a class that cannot hold the expert.

    Before each of them `progress` is called with how many are done, and of how many.
    """
    if not 0 <= gamma <= NEAREST:  # nearer to 1 the linear systems lose the digits that `holds` compares
        raise UserError(f"gamma: {gamma!r} is not in [0, {NEAREST}].")
    check_int("rounds", rounds)
    check_int("seed", seed, 0)
    path = cliff_walk(rounds + 1, gamma)
    wrong = np.tile([0.0, 1.0], (len(path.start), 1))
    chance = random_mdp(40, 4, gamma, seed)
    astray = np.roll(chance.expert, 1, axis=1)  # a deterministic policy that errs in every state
    crossing, clusters = fork(gamma)
    left, alike = np.tile([1.0, 0.0], (3, 1)), {"loss": Absolute(), "clusters": clusters}
    cases: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("a path with pits, expert in the class", path, wrong, {}),
        ("a random MDP, expert in the class", chance, astray, {}),
        ("a fork where states look alike, expert not in the class", crossing, left, alike),
    ]
    made = []
    for name, mdp, first, more in cases:
        progress(len(made), len(cases))
        made.append(play(mdp, first, rounds, name=name, **more))
    return made


def columns(shown: list[Exhibit]) -> dict[str, list[Any]]:
    """Every round of every case, as columns."""
    return disk.to_columns(
        {"case": one.name, "round": t, "loss": loss, "regret": regret, "bound": bound}
        for one in shown
        for t, (loss, regret, bound) in enumerate(
            zip(one.losses.tolist(), one.regret.tolist(), one.bound.tolist(), strict=True), 1
        )
    )


def draw(shown: list[Exhibit]) -> Figure:
    """Regret and bound round by round, a panel each."""
    with plots.panels([""], shown, size=(4.3, 3.3), xlabel="round") as (made, panels):
        for axes, _, one in panels:
            rounds = range(1, len(one.regret) + 1)
            axes.plot(rounds, one.regret, color=look("ftl").colour, linewidth=2.6, label="FTL's regret")
            axes.plot(rounds, one.bound, color=INK, linestyle=":", label="bound  C(1 − γᵀ)/(1 − γ)")
            what, _, where = one.name.partition(", ")
            axes.set_title(f"{what[0].upper()}{what[1:]}\n{where}", fontsize=10)
            axes.set_ylim(0, None)
        panels[0][0].legend(loc="lower right")
    return made
