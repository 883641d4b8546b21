"""The paper's open questions, answered on frozen loss streams: inexact solves, limited memory, parameters."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from understudy.errors import UserError
from understudy.learners import Learner, adaftrl
from understudy.online import around_mean
from understudy.solvers import adam, gd, proximal_sgd, sls
from understudy.studies.study import check_seeds

from .mapping import Table
from .protocol import Progress, Seeds, at_best, counted, make, silent, steps_of
from .streams import ENVIRONMENTS, ROUNDS, TOY, Stream, interactive, play, streams

GD_STEPS = (1, 3, 10, 30)
BATCH, BUDGET = 32, 30
"""Minibatch and number of steps a round of the stochastic solvers."""
RATES = (1e-1, 1e-2, 1e-3, 1e-4)
STOCHASTIC = {"adam": adam, "proximal-sgd": proximal_sgd}
FORMS = ("ftrl", "alt_ftrl", "adaftrl", "alt_adaftrl")
MEMORIES = (1, 3, 10, 30)
"""Rounds in a window; a reservoir gets as many samples as such a window holds."""
KEPT = ("loss", "regret", "residual")
"""What most questions keep of every round."""
VIEWS = ("as recorded", "rotated", "random", "scaled", "whitened")


@dataclasses.dataclass(frozen=True)
class Answers:
    """A table of every step size and one per question, by the names of their files; the steps that were
    chosen, by stream and learner.
    """

    rounds: int
    names: tuple[str, ...]
    streams: list[Stream]
    steps: Table
    best: dict[tuple[str, str], float]
    inexact: Table
    memory: Table
    parameterisation: Table
    interactive: Table | None
    untuned: Table


def study(
    *,
    seeds: Seeds = 5,
    rounds: int = ROUNDS,
    seed: int = 0,
    environments: Sequence[str] = ENVIRONMENTS,
    progress: Progress = silent,
) -> Answers:
    """Records the streams and asks all five questions."""
    names = (*environments, TOY)
    stage = functools.partial(counted, progress)
    recording = stage("recording streams", len(names) * len(check_seeds(seeds)))
    found = streams(names, seeds=seeds, rounds=rounds, seed=seed, progress=recording)
    driven = [stream for stream in found if stream.ledger is not None]
    count, solves = len(found), len(FORMS) * (len(GD_STEPS) + 4)
    held = sum(size < rounds for size in MEMORIES)
    steps = Table.of(every_step(found), stage("every step size", count * 34))
    best = best_steps(steps)
    return Answers(
        rounds,
        names,
        found,
        steps,
        best,
        Table.of(inexact(found, best), stage("inexact solves", count * solves)),
        Table.of(memory(found), stage("limited memory", count * 2 * held * 12)),
        Table.of(views(found), stage("parameterisations", count * len(VIEWS) * 12)),
        Table.of(replayed(driven, best), stage("interactive runs", len(driven) * 4)) if driven else None,
        Table.of(untuned(found), stage("untuned AdaFTRL", count * 2)),
    )


Runs = Iterator[tuple[dict[str, Any], dict[str, Any]]]
"""Labels and results, run after run."""


def _run(stream: Stream, record: dict[str, Any], *names: str, **labels: Any) -> Any:
    """One run on a stream: its labels, and these columns of its record."""
    about = {"stream": stream.name, "seed": stream.seed, **labels}
    return about, {name: record[name] for name in names}


def _candidates(*names: str) -> list[tuple[str, float]]:
    """Every step of these learners."""
    return [(name, step) for name in names for step in steps_of(name)]


def every_step(found: Sequence[Stream]) -> Runs:
    """FTRL, AdaFTRL and OGD at every step of eleven decades, and FTL."""
    for stream in found:
        for name, step in _candidates("ftl", "ftrl", "adaftrl", "ogd"):
            yield _run(stream, play(stream, make(name, step)), *KEPT, learner=name, step=step)


def best_steps(steps: Table) -> dict[tuple[str, str], float]:
    """The best step by stream and learner."""
    best = at_best(steps)
    keys = zip(best["stream"].tolist(), best["learner"].tolist(), strict=True)
    return dict(zip(keys, best["step"].tolist(), strict=True))


def step_for(best: dict[tuple[str, str], float], stream: str, learner: str) -> float:
    """The best step, the same for both forms of a learner; 1 on the toy stream, where the best is not to
    move, and nothing could be seen.
    """
    return 1.0 if stream == TOY else best[stream, learner.removeprefix("alt_")]


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


def inexact(found: Sequence[Stream], best: dict[tuple[str, str], float]) -> Runs:
    """FTRL and AdaFTRL in both forms, with solvers from exact to a single step, at one step size.

    Rates of Adam and proximal SGD are the best of four decades for Alt-FTRL on the first seed.
    """
    rates: dict[str, dict[str, float]] = {}
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
                rate = rates[stream.name].get(solver, float("nan"))
                labels = {"learner": form, "step": step, "solver": solver, "rate": rate}
                yield _run(stream, play(stream, make(form, step), made), *KEPT, **labels)


def _end(stream: Stream, learner: Learner, name: str, rate: float) -> float:
    end = float(play(stream, learner, solvers({name: rate})[name])["regret"][-1])
    return end if np.isfinite(end) else np.inf


def memory(found: Sequence[Stream]) -> Runs:
    """FTL, and FTRL at every step, with windows and reservoirs of the same number of samples."""
    for stream in found:
        sizes = [size for size in MEMORIES if size < stream.rounds]
        for kind, unit in (("window", 1), ("reservoir", stream.inputs.shape[1])):
            for size, (name, step) in itertools.product(sizes, _candidates("ftl", "ftrl")):
                learner = around_mean(make(name, step))
                record = play(stream, learner, "auto", (kind, size * unit, max(sizes) * unit))
                labels = {"learner": name, "step": step, "memory": kind, "rounds_held": size}
                yield _run(stream, record, *KEPT, **labels)


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


def views(found: Sequence[Stream]) -> Runs:
    """FTL, and FTRL at every step, on the same streams through other features.

    `apart` is by how much the outputs played in a round differ from those played with the features as
    recorded and the same step, relative to the targets (root mean squares).
    """
    for stream in found:
        plain: dict[tuple[str, str], np.ndarray] = {}
        for view, matrix in matrices(stream).items():
            seen = stream.through(matrix)
            for name, step in _candidates("ftl", "ftrl"):
                record = play(seen, make(name, step))
                outputs = seen.inputs @ record["params"]
                away = outputs - plain.setdefault((name, str(step)), outputs)
                size = np.sqrt(np.mean(stream.targets**2))
                record["apart"] = np.sqrt(np.mean(away**2, axis=(1, 2))) / size
                yield _run(stream, record, "loss", "regret", "apart", learner=name, step=step, view=view)


def replayed(found: Iterable[Stream], best: dict[tuple[str, str], float]) -> Runs:
    """Each learner on the frozen stream, and in a run of its own, in which its own policy acts."""
    for stream in found:
        tried = {"ftl": float("nan"), "ftrl": best[stream.name, "ftrl"], "adaftrl": 1.0}
        for name, step in (tried | {"ogd": best[stream.name, "ogd"]}).items():
            learner = make(name, step)
            both = {"frozen": play(stream, learner)["loss"]}
            if name == "ftl":
                both["interactive"] = stream.ledger["loss"]  # type: ignore[index] # the run that was recorded
            else:
                try:
                    run = interactive(stream.name, learner, seed=stream.seed, rounds=stream.rounds)
                    both["interactive"] = run.ledger["loss"]
                except UserError:  # it left the finite numbers
                    both["interactive"] = np.full(stream.rounds, np.inf)
            yield _run(stream, both, *both, learner=name, step=step)


def untuned(found: Sequence[Stream]) -> Runs:
    """AdaFTRL with α = 1, and with α = D/√2, D the largest distance of that run from the best."""
    for stream in found:
        first = play(stream, adaftrl())
        yield _run(stream, first, "loss", "regret", rule="α = 1", step=1.0)
        away = np.linalg.norm((first["params"] - stream.best).reshape(stream.rounds, -1), axis=1).max()
        step = float(away) / np.sqrt(2)
        second = play(stream, adaftrl(alpha=step))
        yield _run(stream, second, "loss", "regret", rule="α = D/√2", step=step)
