"""The paper's open questions, answered on frozen loss streams: inexact solves, limited memory, parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UserError
from ..learners import Learner, adaftrl
from ..making import around_mean
from ..mapping import Table
from ..solvers import adam, gd, proximal_sgd, sls
from .protocol import NO_STEP, STEPS, Progress, best_step, counted, make
from .streams import ENVIRONMENTS, ROUNDS, TOY, Stream, interactive, play, streams

GD_STEPS = (1, 3, 10, 30)
BATCH, BUDGET = 32, 30
"""Minibatch and number of steps a round of the stochastic solvers."""
RATES = (1e-1, 1e-2, 1e-3, 1e-4)
STOCHASTIC = {"adam": adam, "proximal-sgd": proximal_sgd}
FORMS = ("ftrl", "alt_ftrl", "adaftrl", "alt_adaftrl")
MEMORIES = (1, 3, 10, 30)
"""Rounds in a window; a reservoir gets as many samples as such a window holds."""
VIEWS = ("as recorded", "rotated", "random", "scaled", "whitened")


@dataclasses.dataclass(frozen=True)
class Answers:
    """One table per question, and the steps that were chosen: by stream and learner."""

    rounds: int
    seeds: int
    names: tuple[str, ...]
    streams: list[Stream]
    steps: Table
    best: dict[tuple[str, str], float]
    inexact: Table
    memory: Table
    views: Table
    interactive: Table | None
    untuned: Table


def study(
    *,
    seeds: int = 5,
    rounds: int = ROUNDS,
    seed: int = 0,
    environments: Sequence[str] = ENVIRONMENTS,
    progress: Progress | None = None,
) -> Answers:
    """Records the streams and asks all five questions."""
    stage = functools.partial(counted, progress)
    names = (*environments, TOY)
    found = streams(
        names,
        seeds=seeds,
        rounds=rounds,
        seed=seed,
        progress=stage("recording streams", len(names) * seeds),
    )
    steps, best = tuned(found, stage("every step size", len(found) * 34))
    driven = [stream for stream in found if stream.ledger is not None]
    return Answers(
        rounds,
        seeds,
        names,
        found,
        steps,
        best,
        inexact(found, best, stage("inexact solves", len(found) * len(FORMS) * (len(GD_STEPS) + 4))),
        memory(found, stage("limited memory", len(found) * 2 * len(MEMORIES) * 12)),
        views(found, stage("parameterisations", len(found) * len(VIEWS) * 12)),
        replayed(driven, best, stage("interactive runs", len(driven) * 4)) if driven else None,
        untuned(found, stage("untuned AdaFTRL", len(found) * 2)),
    )


class Rows:
    """Collects runs, and reports how many there are."""

    def __init__(self, counted: Callable[[int, Any], None] | None = None):
        self._labels: list[dict[str, Any]] = []
        self._results: list[dict[str, Any]] = []
        self._counted = counted

    def add(self, labels: dict[str, Any], results: dict[str, Any]) -> None:
        self._labels.append(labels)
        self._results.append(results)
        if self._counted is not None:
            self._counted(len(self._labels), None)

    def table(self) -> Table:
        def columns(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
            return {name: np.asarray([row[name] for row in rows]) for name in rows[0]}

        return Table(columns(self._labels), columns(self._results))


def _labels(stream: Stream, **more: Any) -> dict[str, Any]:
    return {"stream": stream.name, "seed": stream.seed, **more}


def tuned(found: Sequence[Stream], counted: Any) -> tuple[Table, dict[tuple[str, str], float]]:
    """FTRL, AdaFTRL and OGD at every step of eleven decades, and FTL; the best steps."""
    rows = Rows(counted)
    for stream in found:
        for name in ("ftl", "ftrl", "adaftrl", "ogd"):
            for step in NO_STEP if name == "ftl" else STEPS:
                record = play(stream, make(name, step))
                kept = {key: record[key] for key in ("loss", "regret", "residual")}
                rows.add(_labels(stream, learner=name, step=step), kept)
    table = rows.table()
    best = {}
    for stream in dict.fromkeys(one.name for one in found):
        for name in ("ftl", "ftrl", "adaftrl", "ogd"):
            best[stream, name] = best_step(table.where(stream=stream, learner=name))
        best[stream, "alt_ftrl"], best[stream, "alt_adaftrl"] = best[stream, "ftrl"], best[stream, "adaftrl"]
    return table, best


def step_for(best: dict[tuple[str, str], float], stream: str, learner: str) -> float:
    """The best step, or 1 on the toy stream: there the best is not to move, and nothing could be seen."""
    return 1.0 if stream == TOY else best[stream, learner]


def solvers(rates: dict[str, float]) -> dict[str, Any]:
    """Solvers by name. Numbers of steps and rates are data, so that they share programs."""
    with jax.enable_x64(True):
        made: dict[str, Any] = {"exact": "auto"}
        made |= {f"gd-{k}": gd(max_iterations=jnp.asarray(k, jnp.int32)) for k in GD_STEPS}  # type: ignore[arg-type]
        for name, rate in rates.items():
            made[name] = STOCHASTIC[name](
                learning_rate=jnp.asarray(rate), batch_size=BATCH, max_iterations=BUDGET
            )
        return made | {"sls": sls(batch_size=BATCH, max_iterations=BUDGET)}


def inexact(found: Sequence[Stream], best: dict[tuple[str, str], float], counted: Any = None) -> Table:
    """FTRL and AdaFTRL in both forms, with solvers from exact to a single step, at one step size.

    Rates of Adam and proximal SGD are the best of four decades for Alt-FTRL on the first seed.
    """
    rows, rates = Rows(counted), {}
    for stream in found:
        if stream.name not in rates:
            learner = make("alt_ftrl", step_for(best, stream.name, "ftrl"))
            rates[stream.name] = {
                name: RATES[int(np.argmin([_end(stream, learner, name, rate) for rate in RATES]))]
                for name in STOCHASTIC
            }
        for solver, made in solvers(rates[stream.name]).items():
            for form in FORMS:
                step = step_for(best, stream.name, form)
                record = play(stream, make(form, step), made)
                rate = rates[stream.name].get(solver, float("nan"))
                kept = {key: record[key] for key in ("loss", "regret", "residual")}
                rows.add(_labels(stream, learner=form, step=step, solver=solver, rate=rate), kept)
    return rows.table()


def _end(stream: Stream, learner: Learner, name: str, rate: float) -> float:
    end = float(play(stream, learner, solvers({name: rate})[name])["regret"][-1])
    return end if np.isfinite(end) else np.inf


def memory(found: Sequence[Stream], counted: Any = None) -> Table:
    """FTL, and FTRL at every step, with windows and reservoirs of the same number of samples."""
    rows = Rows(counted)
    for stream in found:
        samples = stream.inputs.shape[1]
        sizes = [size for size in MEMORIES if size < stream.rounds]
        for kind in ("window", "reservoir"):
            unit = 1 if kind == "window" else samples
            for size in sizes:
                for name, steps in (("ftl", NO_STEP), ("ftrl", STEPS)):
                    for step in steps:
                        learner = around_mean(make(name, step))
                        record = play(stream, learner, "auto", (kind, size * unit, max(sizes) * unit))
                        labels = _labels(stream, learner=name, step=step, memory=kind, rounds_held=size)
                        rows.add(labels, {key: record[key] for key in ("loss", "regret", "residual")})
    return rows.table()


def matrices(stream: Stream) -> dict[str, np.ndarray]:
    """Invertible changes of the features, from the first round alone (on the toy stream, from all: one sample
    a round says nothing): a rotation, a random matrix with singular values from ½ to 2, division by each
    feature's root mean square, and whitening.
    """
    rng = np.random.default_rng([stream.seed, 7])
    size = stream.inputs.shape[2]
    first = stream.inputs.reshape(-1, size) if stream.name == TOY else stream.inputs[0]
    moment = first.T @ first / len(first)
    values, vectors = np.linalg.eigh(moment)
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(2))
    scale = np.sqrt(np.maximum(np.diag(moment), 1e-6 * moment.max()))
    return {
        "as recorded": np.eye(size),
        "rotated": left,
        "random": left @ np.diag(np.geomspace(0.5, 2.0, size)) @ right.T,
        "scaled": np.diag(1.0 / scale),
        "whitened": (vectors / np.sqrt(np.maximum(values, 1e-6 * values.max()))) @ vectors.T,
    }


def views(found: Sequence[Stream], counted: Any = None) -> Table:
    """FTL, and FTRL at every step, on the same streams through other features.

    `apart` is by how much the outputs played in a round differ from those played with the features as
    recorded and the same step, relative to the targets (root mean squares).
    """
    rows = Rows(counted)
    for stream in found:
        plain: dict[tuple[str, str], np.ndarray] = {}
        for view, matrix in matrices(stream).items():
            seen = stream.through(matrix)
            for name, steps in (("ftl", NO_STEP), ("ftrl", STEPS)):
                for step in steps:
                    record = play(seen, make(name, step))
                    outputs = seen.inputs @ record["params"]
                    like = plain.setdefault((name, str(step)), outputs)
                    apart = _size(outputs - like) / np.sqrt(np.mean(stream.targets**2))
                    kept = {"loss": record["loss"], "regret": record["regret"], "apart": apart}
                    rows.add(_labels(stream, learner=name, step=step, view=view), kept)
    return rows.table()


def _size(values: np.ndarray) -> np.ndarray:
    """Root mean square of every round."""
    return np.sqrt(np.mean(values**2, axis=(1, 2)))


def replayed(found: Iterable[Stream], best: dict[tuple[str, str], float], counted: Any = None) -> Table:
    """Each learner on the frozen stream, and in a run of its own, in which its own policy acts."""
    rows = Rows(counted)
    for stream in found:
        tried = {"ftl": float("nan"), "ftrl": best[stream.name, "ftrl"], "adaftrl": 1.0}
        for name, step in (tried | {"ogd": best[stream.name, "ogd"]}).items():
            learner = make(name, step)
            frozen = play(stream, learner)["loss"]
            if name == "ftl":
                own = stream.ledger["loss"]  # type: ignore[index] # it is the run that was recorded
            else:
                try:
                    run = interactive(stream.name, learner, seed=stream.seed, rounds=stream.rounds)
                    own = run.ledger["loss"]
                except UserError:  # it left the finite numbers
                    own = np.full(stream.rounds, np.inf)
            rows.add(_labels(stream, learner=name, step=step), {"frozen": frozen, "interactive": own})
    return rows.table()


def untuned(found: Sequence[Stream], counted: Any = None) -> Table:
    """AdaFTRL with α = 1, and with α = D/√2, D the largest distance of that run from the best."""
    rows = Rows(counted)
    for stream in found:
        first = play(stream, adaftrl())
        away = np.linalg.norm((first["params"] - stream.best).reshape(stream.rounds, -1), axis=1).max()
        steps = {"α = 1": 1.0, "α = D/√2": float(away) / np.sqrt(2)}
        for name, step in steps.items():
            record = first if name == "α = 1" else play(stream, adaftrl(alpha=step))
            rows.add(
                _labels(stream, rule=name, step=step), {"loss": record["loss"], "regret": record["regret"]}
            )
    return rows.table()
