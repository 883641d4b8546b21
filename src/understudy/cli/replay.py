"""`understudy replay`: a recorded stream in; ledger, certificate and plot out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from .. import disk
from ..errors import UserError
from ..progress import count_up
from ..report import tables
from ..spec import OPTIONS
from .options import Flag, Folder, Json, Number, Options, Whole

if TYPE_CHECKING:
    import numpy as np

    from ..policies import Params, Policy
    from ..solvers import AnySolver
    from ..streams import Replay as Result

    Round = tuple[np.ndarray, np.ndarray]


class Replay(Options, settings=OPTIONS["learner"]):
    """Play a recorded stream of losses to a learner, and report its regret.

    The stream is an npz file with X (rounds, samples, features) and Y (rounds, samples, outputs), or labels
    Y (rounds, samples) for the cross-entropy loss. Rounds of unequal size: X (N, features) and Y (N, ...),
    with `sizes` (rounds,) that add up to N.
    """

    stream: Positional[Annotated[Path, arg(metavar="STREAM")]]
    """The npz file with the stream."""
    learner: str = "ftl"
    """ftl, ftrl, alt_ftrl, adaftrl, ogd, adagrad, or your own as module:function."""
    policy: str = "linear"
    """linear or mlp."""
    bias: Flag = False
    """Give the linear policy a bias."""
    loss: str = "squared"
    """squared, absolute, huber, cross-entropy or binary-cross-entropy."""
    solver: str = "auto"
    """auto, closed-form, newton, lbfgs, gd, adam, sls, proximal-sgd, interior-point, or module:function."""
    tolerance: Number = None
    """The solver stops at this gradient norm of (whole objective)/t."""
    max_iterations: Whole = None
    """The solver stops after this many iterations."""
    batch_size: Whole = None
    """Samples per step of a solver that can take minibatches."""
    memory: str = "all"
    """What the learner may learn from: all, window:ROUNDS (the last) or reservoir:SAMPLES (of all)."""
    seed: int = 0
    """Seed of everything random: first parameters of a network, minibatches, reservoirs."""
    out: Folder = None
    """Write ledger.csv, times.csv, certificate.json and regret.png to this new folder."""
    keep_iterates: Flag = False
    """Also write every iterate, w_1 to w_{T+1}, to iterates.npz."""
    json: Json = False


def run(options: Replay) -> int:
    """Plays the stream, prints the outcome and, where asked, writes the folder."""
    from .. import replay
    from ..learners import LEARNERS
    from ..solvers import SOLVERS

    disk.refuse_taken(options.out)
    if options.keep_iterates and options.out is None:
        raise UserError("keep-iterates: there is nowhere to write them; add --out.")
    learner = LEARNERS.make(options.learner, options.given())
    rounds = read_stream(options.stream)
    limits = {name: getattr(options, name) for name in ("tolerance", "max_iterations", "batch_size")}
    solver: str | AnySolver = options.solver
    if ":" in options.solver:  # one of the user's own is made with them
        own = {name: value for name, value in limits.items() if value is not None}
        solver, limits = SOLVERS.make(options.solver, own), {}
    with count_up(f"{options.learner} on {options.stream.name}", len(rounds)) as update:
        result = replay(
            rounds,
            policy=_policy(options),
            loss=options.loss,
            learner=learner,
            keep_iterates=options.keep_iterates,
            seed=options.seed,
            memory=options.memory,
            progress=lambda done, row: update(done),
            solver=solver,
            **limits,
        )
    outcome = _outcome(options, result)
    if options.out is not None:
        with disk.new_folder(options.out) as folder:
            _write_folder(folder, options, result, outcome)
    tables.show(tables.replay(options.learner, result))
    tables.json_line(outcome)
    return 0


def _policy(options: Replay) -> str | Policy:
    from ..policies import Linear

    if not options.bias:
        return options.policy
    if options.policy != "linear":
        raise UserError(f"bias: the policy {options.policy!r} does not take --bias; linear does.")
    return Linear(bias=True)


def _outcome(options: Replay, result: Result) -> dict[str, disk.Json]:
    """The numbers of the outcome, ready for JSON; what is not finite is null."""
    import numpy as np

    named = ("loss", "cumulative_loss", "average_loss", "comparator")
    last = {name: result.ledger[name][-1].item() for name in named}
    statuses, counts = np.unique(result.ledger["solver_status"], return_counts=True)
    outcome = {
        "learner": options.learner,
        **options.given(),
        "policy": options.policy,
        "loss_function": options.loss,
        **{name: getattr(options, name) for name in ("solver", "memory", "seed")},
        "rounds": result.ledger.rounds,
        "samples": int(result.ledger["samples"].sum()),
        **last,
        **result.certificate._asdict(),
        "solver_status": dict(zip(statuses.tolist(), counts.tolist(), strict=True)),
        "comparator_status": str(result.ledger["comparator_status"][-1]),
        "seconds": float(result.times.sum()),
        "out": None if options.out is None else str(options.out),
    }
    return disk.to_plain(outcome)


def _write_folder(folder: Path, options: Replay, result: Result, outcome: dict[str, disk.Json]) -> None:
    from ..report import plots

    result.ledger.to_csv(folder / "ledger.csv")
    seconds = {"round": range(1, len(result.times) + 1), "seconds": result.times.tolist()}
    disk.write_file(folder / "times.csv", disk.to_csv(seconds))
    # Times differ from run to run, so the certificate keeps none: same seed, same bytes.
    lasting = {k: v for k, v in outcome.items() if k not in ("seconds", "out")}
    text = disk.to_json(result.certificate._asdict() | lasting, indent=2)
    disk.write_file(folder / "certificate.json", text + "\n")
    if result.iterates is not None:
        disk.write_npz(folder / "iterates.npz", _stack(result.iterates))
    proved = result.certificate.kind == "certificate"
    plots.save(plots.regret({options.learner: result.ledger}, bound=proved), folder / "regret.png")


def _stack(iterates: list[Params]) -> dict[str, np.ndarray]:
    """Each leaf of the parameters with the rounds in front: `w` where there is one leaf, else its path."""
    import jax
    import numpy as np

    named, _ = jax.tree_util.tree_flatten_with_path(iterates[0])  # pyright: ignore[reportUnknownVariableType]
    names = [jax.tree_util.keystr(at, simple=True, separator=".") for at, _ in named]  # pyright: ignore[reportUnknownVariableType]
    leaves = zip(*map(jax.tree.leaves, iterates), strict=True)
    names = names if len(names) > 1 else ["w"]
    return {name: np.stack(each) for name, each in zip(names, leaves, strict=True)}


def read_stream(path: Path) -> list[Round]:
    """The rounds [(X, Y), …] of a file with X, Y (rounds, samples, …), or X, Y (N, …) and `sizes` (rounds,).

    Nothing in the file is executed: arrays that would need unpickling are refused.
    """
    if not path.is_file():
        raise UserError(f"stream: there is no file {str(path)!r}.")
    arrays = disk.read_npz(path, "stream")
    if "X" not in arrays or "Y" not in arrays:
        held = f"the arrays {', '.join(sorted(arrays))}" if arrays else "no arrays"
        raise UserError(f"stream: {path} holds {held}; arrays named X and Y are needed.")
    X, Y = arrays["X"], arrays["Y"]
    if X.ndim == 0 or Y.ndim == 0 or len(X) != len(Y):
        raise UserError(f"stream: X has shape {X.shape} and Y {Y.shape}; their first axes must agree.")
    if "sizes" in arrays:
        return _split(X, Y, arrays["sizes"])
    if X.ndim < 3:
        raise UserError(
            f"stream: X has shape {X.shape}; expected (rounds, samples, features), or (N, features) with an "
            "array 'sizes' that says how many samples each round has."
        )
    if Y.ndim < 2 or X.shape[1] != Y.shape[1]:
        raise UserError(f"stream: X has shape {X.shape} and Y {Y.shape}; rounds and samples must agree.")
    return list(zip(X, Y, strict=True))


def _split(X: np.ndarray, Y: np.ndarray, sizes: np.ndarray) -> list[Round]:
    import numpy as np

    if sizes.ndim != 1 or sizes.size == 0 or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 1).any():
        raise UserError("stream: sizes must be whole numbers ≥ 1, one a round.")
    if int(sizes.sum()) != len(X):
        raise UserError(f"stream: sizes add up to {int(sizes.sum())}, but X has {len(X)} rows.")
    cuts = np.cumsum(sizes)[:-1]
    return list(zip(np.split(X, cuts), np.split(Y, cuts), strict=True))
