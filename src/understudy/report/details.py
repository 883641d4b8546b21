"""What a page shows of a run from its samples: who acted, where policy and expert disagree, and moments of it
as short films: the episode is played again from its seed with the actions that were played, and what it shows
is compared with what was kept.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from ..disk import Json
from ..envs.gymnasium import Maker, derive
from ..envs.pictures import Stage
from ..errors import UserError, shorten
from ..exports.episodes import split
from ..nested import stack
from ..policies import Actions, History, Recalled, TrainedPolicy
from ..policies.acting import forward_rows
from ..runs import Record, maker_of
from ..samples import BREAK, EXPERT
from .account import thin

MOST_STATES, BYTES = 20_000, 64 << 20
"""Most labelled states that are looked at, and most bytes of them."""
POINTS = 900
"""Most states that are drawn."""
MOST_NUMBERS = 2048
"""Observations of more numbers, as images are, are not drawn as points."""
BINS = 240
"""Most steps of the timeline."""
NUMBERS = 6
"""Most dimensions of an action that a moment shows; those that differ most are taken."""
TILES, COLUMNS, WIDTH = 24, 6, 200
"""Pictures of a clip, how many stand side by side in its image, and the width of one in pixels."""
BEFORE, AFTER = 1.2, 0.8
"""Seconds before and after the moment."""
QUALITY = 42
AWAY = 1e-3
"""An episode counts as played again where its observation is as near as this to the one that was kept."""


def inspect(
    folder: Path, *, moments: int, seconds: float, progress: Callable[[int], None] | None = None
) -> dict[str, Json]:
    """Timeline, disagreement and moments of the run in `folder`; a sentence `missing` where there are none.

    Clips are drawn for so many `seconds` at most, but for the one that is under way then.
    """
    try:
        run = Record.load(folder)
        shown: dict[str, Json] = {"timeline": timeline(run), "floor": entropy(run)}
        compared = compare(run)
    except UserError as error:
        return {"missing": str(error)}
    if compared is None:
        return shown | {"missing": "no state of the run has a label."}
    shown["compared"] = described(run, compared)
    chosen = worst(run, compared, moments)
    clips: dict[int, Clip] = {}
    if chosen and seconds > 0:
        try:
            make = maker_of(run.settings)
        except UserError as error:
            shown["drawing"] = str(error)
        else:
            inputs, until = run.samples("inputs"), time.monotonic() + seconds
            clips, shown["drawing"] = film(make, run.policy, inputs, chosen, until=until, progress=progress)
    shown["moments"] = [
        _describe_moment(compared, moment) | ({"clip": clips[place]} if place in clips else {})
        for place, moment in enumerate(chosen)
    ]
    return shown


def timeline(run: Record) -> dict[str, list[float] | int]:
    """The shares of steps that the expert acted, and of states it was asked about, along the steps."""
    flags, weights = (np.asarray(run.samples(name)[run.demos :]) for name in ("flags", "weights"))
    if not len(flags):
        return {"x": [], "end": 0, "acted": [], "asked": []}
    edges = np.unique(np.linspace(0, len(flags), min(BINS, len(flags)) + 1).round().astype(int))
    sizes = np.diff(edges)
    acted = np.add.reduceat((flags & EXPERT > 0).astype(float), edges[:-1]) / sizes
    asked = np.add.reduceat((weights > 0).astype(float), edges[:-1]) / sizes
    shares = {"acted": acted.round(4).tolist(), "asked": asked.round(4).tolist()}
    return {"x": edges[:-1].tolist(), "end": len(flags), **shares}


def entropy(run: Record) -> dict[str, list[float]] | None:
    """The mean entropy of the expert's labels in each round; None where they are single actions: zero."""
    actions, rounds = run.policy.actions, run.ledger["round"]
    if not actions.categorical or run.settings["loss"] not in ("auto", "cross-entropy"):
        return None
    targets, weights = np.asarray(run.samples("targets"), float), np.asarray(run.samples("weights"), float)
    if targets.shape[1:] != (sum(actions.counts),):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        each = -np.nansum(targets * np.log(targets), axis=1)
    if not (each > 1e-6).any():
        return None
    edges = np.concatenate([[0], run.demos + run.ledger["steps"]])
    found = [
        (float(number), float(np.average(each[a:b], weights=weights[a:b])))
        for number, a, b in zip(rounds, edges, edges[1:], strict=False)
        if weights[a:b].sum() > 0
    ]
    shown: list[tuple[float, float]] = [found[place] for place in thin(len(found), 300)] if found else []
    return {"x": [x for x, _ in shown], "y": [round(y, 6) for _, y in shown]} if shown else None


def _describe_moment(compared: Compared, moment: Moment) -> dict[str, Json]:
    actions, at = compared.actions, moment.at
    mine, theirs = compared.mine[at], compared.theirs[at]
    shown: dict[str, Json] = {
        **{name: getattr(moment, name) for name in ("round", "slot", "episode", "step")},
        "away": float(compared.away[at]),
        "by_expert": bool(compared.by_expert[at]),
        "choices": actions.categorical,
    }
    if actions.categorical:
        return shown | {"mine": mine[:16].tolist(), "theirs": theirs[:16].tolist()}
    apart = np.sort(np.argsort(-np.abs(mine - theirs), kind="stable")[:NUMBERS])
    bounds = (np.asarray(bound).ravel()[apart] for bound in (actions.low, actions.high))
    edges = [float(edge) for each in bounds for edge in each]
    if not all(map(math.isfinite, edges)):
        edges = [float(value) for value in (*mine[apart], *theirs[apart])]
    return shown | {
        "dimensions": apart.tolist(),
        "mine": [float(f"{value:.6g}") for value in mine[apart]],
        "theirs": [float(f"{value:.6g}") for value in theirs[apart]],
        "range": [min(edges), max(edges)],
    }


Clip: TypeAlias = dict[str, str | float]
"""A short film as one WebP image of tiles: how many, and their places and size; `at` is that of the moment,
`rate` tiles a second.
"""


def film(
    make: Maker,
    policy: TrainedPolicy,
    inputs: np.ndarray,
    moments: Sequence[Moment],
    *,
    until: float,
    progress: Callable[[int], None] | None = None,
) -> tuple[dict[int, Clip], str]:
    """Clips by the place of their moment, and why some are missing (empty: none is); it ends at `until`."""
    clips: dict[int, Clip] = {}
    try:
        stage = Stage(make)
    except UserError as error:
        return {}, str(error).removeprefix("env: ")
    missing = ""
    with contextlib.closing(stage):
        for place, moment in enumerate(moments):
            if time.monotonic() > until:
                missing = f"the time for drawing was over after {place} of {len(moments)} moments."
                break
            try:
                clip = _film_moment(stage, policy, np.asarray(inputs[moment.row]), moment)
            except Exception as error:  # whatever an environment may raise
                missing = f"an episode could not be drawn ({shorten(error)})."
                continue
            if clip is None:
                missing = "an episode does not replay: it shows something else than when it was recorded."
            else:
                clips[place] = clip
            if progress is not None:
                progress(place + 1)
    return clips, missing


def _film_moment(stage: Stage, policy: TrainedPolicy, recorded: np.ndarray, moment: Moment) -> Clip | None:
    """The clip of a moment; None where the episode does not show what was recorded."""
    skip = max(1, round((BEFORE + AFTER) * stage.rate / TILES))
    before = min(moment.step // skip, round(TILES * BEFORE / (BEFORE + AFTER)))
    first, last = moment.step - before * skip, moment.step + (TILES - before - 1) * skip
    seen, _ = stage.env.reset(seed=moment.seed)
    tiles: list[np.ndarray] = []
    codec = policy.observations
    past = History(codec, 1) if isinstance(codec, Recalled) else None
    for step in range(min(last, len(moment.actions)) + 1):
        if step == moment.step or (past is not None and step < moment.step):
            rows = codec.rows(stack([seen])) if past is None else past.see([0], stack([seen]))
            if past is not None:
                past.advance([0], rows)
            if step == moment.step and not np.allclose(rows[0], recorded, rtol=AWAY, atol=AWAY):
                return None
        if step >= first and (step - first) % skip == 0:
            tiles.append(_small(stage.draw()))
        if step < len(moment.actions):
            seen, *_ = stage.env.step(policy.actions.from_numbers(moment.actions[step]))
    if len(tiles) <= before:
        return None
    height, width = tiles[0].shape[:2]
    lines = -(-len(tiles) // COLUMNS)
    sheet = np.full((lines * height, min(COLUMNS, len(tiles)) * width, 3), 255, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = number // COLUMNS * height, number % COLUMNS * width
        sheet[top : top + height, left : left + width] = tile
    size = {"width": width, "height": height, "columns": min(COLUMNS, len(tiles)), "lines": lines}
    rate = round(stage.rate / skip, 2)
    return {"image": _webp(sheet), **size, "tiles": len(tiles), "at": before, "rate": rate}


def _small(frame: np.ndarray) -> np.ndarray:
    from PIL import Image

    height, width = frame.shape[:2]
    size = WIDTH, max(1, round(height * WIDTH / width))
    return np.asarray(Image.fromarray(frame).convert("RGB").resize(size, Image.Resampling.LANCZOS))


def _webp(sheet: np.ndarray) -> str:
    from PIL import Image

    packed = io.BytesIO()
    Image.fromarray(sheet).save(packed, "WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(packed.getvalue()).decode()


# ---------------------------------------------------------------------------- where both disagree


@final
@dataclasses.dataclass(frozen=True)
class Compared:
    """Labelled states of a run and what both do in them; all arrays have one entry per state.

    rows: their numbers among the run's samples. away: how far the policy is from the label (see `distance`).
    mine, theirs: the actions (n, a), as they are played. by_expert: whether the expert was acting.
    """

    rows: np.ndarray
    away: np.ndarray
    mine: np.ndarray
    theirs: np.ndarray
    by_expert: np.ndarray
    actions: Actions

    @property
    def differs(self) -> np.ndarray:
        """Where the choices are not the same; for numbers, where any differs."""
        return (self.mine != self.theirs).any(axis=1)


def distance(actions: Actions, outputs: ArrayLike, targets: ArrayLike) -> np.ndarray:
    """How far outputs (n, k) are from labels (n, k): for choices the Kullback-Leibler divergence from the
    expert's distribution, which for a single choice is −log of its probability; else the Euclidean distance
    of the actions as they are played.

    >>> from gymnasium.spaces import Discrete
    >>> distance(Actions.of(Discrete(2)), np.zeros((1, 2)), np.array([[1.0, 0.0]])).round(4).tolist()
    [0.6931]
    """
    outputs, targets = np.asarray(outputs, float), np.asarray(targets, float)
    if not actions.categorical:
        mine, theirs = (np.asarray(actions.plays(x), float).reshape(len(x), -1) for x in (outputs, targets))
        return np.sqrt(np.square(mine - theirs).sum(axis=1))
    total, first = np.zeros(len(outputs)), 0
    for count in actions.counts:
        logits, wanted = outputs[:, first : first + count], targets[:, first : first + count]
        logits = logits - logits.max(axis=1, keepdims=True)
        log = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        known = np.log(np.where(wanted > 0, wanted, 1.0))
        total += (wanted * (known - log)).sum(axis=1)
        first += count
    return np.maximum(total, 0.0)


def compare(run: Record) -> Compared | None:
    """Both on the labelled states of the run, at most `MOST_STATES`, evenly spread; None without any."""
    weights, flags = run.samples("weights"), np.asarray(run.samples("flags"))
    labelled = np.flatnonzero((np.asarray(weights) > 0) & (flags & BREAK == 0))
    if not len(labelled):
        return None
    policy = run.policy
    width = policy.observations.width * policy.observations.dtype.itemsize
    rows = labelled[thin(len(labelled), max(1, min(MOST_STATES, BYTES // width)))]
    inputs = np.asarray(run.samples("inputs")[rows])
    targets = np.asarray(run.samples("targets")[rows])
    acts = policy.actions
    if policy.policy.memory:  # it answers along whole episodes
        outputs = policy.along(run.samples("inputs"), run.samples("slots"))[rows]
    else:
        outputs = forward_rows(policy.policy, policy.params)(policy.normaliser(inputs))
    mine, theirs = (np.asarray(acts.plays(each)).reshape(len(rows), -1) for each in (outputs, targets))
    return Compared(
        rows=rows,
        away=distance(acts, outputs, targets),
        mine=mine,
        theirs=theirs,
        by_expert=flags[rows] & EXPERT > 0,
        actions=acts,
    )


def described(run: Record, compared: Compared) -> dict[str, Json]:
    """What a page shows of it: means on the expert's and on the policy's own states, by action or choice, and
    the states on the plane of their two main directions.
    """
    acts = compared.actions
    sides: dict[str, dict[str, Json]] = {}
    for name, there in (("expert", compared.by_expert), ("own", ~compared.by_expert)):
        side: dict[str, Json] = {"states": int(there.sum())}
        if there.any():
            side |= {name: float(getattr(compared, name)[there].mean()) for name in ("away", "differs")}
            if not acts.categorical:
                gaps = np.abs(compared.mine[there] - compared.theirs[there])
                side["gaps"] = gaps.mean(axis=0)[:16].tolist()
        sides[name] = side
    shown: dict[str, Json] = {"choices": acts.categorical, "sides": sides, "states": len(compared.rows)}
    if acts.kind == "discrete" and acts.counts[0] <= 18:
        table = np.zeros((acts.counts[0], acts.counts[0]), int)
        np.add.at(table, (compared.theirs[:, 0] - acts.starts[0], compared.mine[:, 0] - acts.starts[0]), 1)
        shown |= {"confusion": table.tolist(), "first": acts.starts[0]}
    plane = _plane(run, compared)
    return shown | ({} if plane is None else {"plane": plane})


def _plane(run: Record, compared: Compared) -> dict[str, list[float] | float] | None:
    """Some of the states, evenly spread, on the two directions in which states vary most."""
    if run.policy.observations.width > MOST_NUMBERS or len(compared.rows) < 3:
        return None
    chosen = thin(len(compared.rows), POINTS)
    states = run.policy.normaliser(np.asarray(run.samples("inputs")[compared.rows])).astype(float)
    centred = states - states.mean(axis=0)
    centred /= np.maximum(centred.std(axis=0), 1e-12)
    _, sizes, directions = np.linalg.svd(centred[thin(len(states), 4000)], full_matrices=False)
    if len(sizes) < 2 or sizes[1] <= 0:
        return None
    # A direction and its opposite are the same; the largest entry is made positive.
    two = directions[:2] * np.sign(directions[:2][[0, 1], np.abs(directions[:2]).argmax(axis=1)])[:, None]
    places = centred[chosen] @ two.T
    limit = float(np.quantile(compared.away, 0.9))
    return {
        "x": places[:, 0].round(3).tolist(),
        "y": places[:, 1].round(3).tolist(),
        "expert": compared.by_expert[chosen].tolist(),
        "far": (compared.away[chosen] > limit).tolist(),
        "limit": limit,
        "share": float(np.square(sizes[:2]).sum() / np.square(sizes).sum()),
    }


@final
@dataclasses.dataclass(frozen=True)
class Moment:
    """One state in which they disagree, and where it is: round, environment, episode and step, from 0 but for
    the round; `seed` is that of the episode and `actions` (steps, a) are those played in it.
    """

    at: int
    """Its place in `Compared`."""
    row: int
    round: int
    slot: int
    episode: int
    step: int
    seed: int
    actions: np.ndarray


def worst(run: Record, compared: Compared, count: int, apart: int = 40) -> list[Moment]:
    """The largest disagreements, choices that differ first; two of one episode are `apart` steps apart."""
    executed, demos = run.samples("executed"), run.demos
    bounds = np.append(demos, demos + np.asarray(run.ledger["steps"], int))
    episodes = split(run)
    which = np.full(len(executed), -1)
    for number, steps in enumerate(episodes):
        which[steps.rows] = number
    agree = ~compared.differs if compared.actions.categorical else np.zeros(len(compared.away), bool)
    chosen: list[Moment] = []
    for at in np.lexsort((-compared.away, agree))[:4000].tolist():
        row = int(compared.rows[at])
        if len(chosen) >= count or compared.away[at] <= 0:
            break
        if which[row] < 0:  # a demonstration
            continue
        slot, episode, rows = episodes[int(which[row])]
        step = int(np.searchsorted(rows, row))
        same = [each for each in chosen if (each.slot, each.episode) == (slot, episode)]
        if any(abs(each.step - step) < apart for each in same):
            continue
        number = int(np.searchsorted(bounds, row, side="right"))
        seed = derive(run.settings["seed"], "collect", slot, episode)
        actions = np.asarray(executed[rows[: step + 4 * apart]])
        place = {"at": at, "row": row, "round": number, "slot": slot, "episode": episode, "step": step}
        chosen.append(Moment(**place, seed=seed, actions=actions))
    return chosen
