"""Conformance suites of policies, losses, ask rules, experts and environments: what each of them must do."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false
# JAX and Gymnasium say little of the types of what they return.

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from .. import asking, disk
from ..asking.base import chosen_by
from ..envs.gymnasium import Maker, has_limit, maker
from ..errors import ContractError, UserError
from ..losses import LOSSES, Loss, Squared, check_loss
from ..nested import parts, stack, take
from ..policies import POLICIES, Linear, Params, Policy, Tabular, from_config
from ..policies.base import first_params
from ..runs import spaces_of
from ..spec import RunSpec, is_pure
from .base import Check, Progress, Report, equal, name_of, run_checks

if TYPE_CHECKING:
    from ..asking import Asked, Rule
    from ..experts import Expert, Source
    from ..nested import Nested
    from ..spec import Environment

ROWS, FEATURES, OUTPUTS = 12, 5, 3
STEPS, LONG = 60, 2_000
"""Steps of an environment that are played, and those in which an episode without a limit ends."""
DRAWS = 400

# ----------------------------------------------------------------------------------------------- policies


def policy(subject: str | Policy, *, progress: Progress | None = None) -> Report:
    """Puts a policy of vectors (an object or a registered name) through its suite; raises `CheckError` if it
    fails. One with memory or of images is not checked.

    >>> import understudy
    >>> understudy.checks.policy("linear").passed
    True
    """
    made = POLICIES.resolve(subject)
    with jax.enable_x64(True):
        return run_checks(f"policy {name_of(subject)}", made, POLICY, progress)


def _first(subject: Policy, dtype: DTypeLike | None = None) -> tuple[Params, np.ndarray]:
    """The first parameters, and rows for them."""
    if subject.memory:
        raise UserError("a policy with memory takes sequences")
    rng, features = np.random.default_rng(0), FEATURES
    rows = rng.normal(size=(ROWS, FEATURES))
    if isinstance(subject, Tabular):
        features, rows = 1, rng.integers(0, subject.states, (ROWS, 1)).astype(float)
    return first_params(subject, jax.random.key(0), features, OUTPUTS, dtype), rows


def _answers(subject: Policy) -> tuple[bool, str]:
    params, rows = _first(subject)
    outputs = subject.apply(params, jnp.asarray(rows))
    good = outputs.shape == (ROWS, OUTPUTS) and bool(jnp.isfinite(outputs).all())
    return good, f"outputs {outputs.shape} for inputs {rows.shape}, {'' if good else 'not '}all finite"


def _row_by_row(subject: Policy) -> tuple[bool, str]:
    params, rows = _first(subject)
    outputs = subject.apply(params, jnp.asarray(rows))
    alone = jnp.concatenate([subject.apply(params, jnp.asarray(row[None])) for row in rows])
    gap = float(jnp.abs(outputs - alone).max())
    return gap <= 1e-9 * (1 + float(jnp.abs(outputs).max())), f"alone and together differ by {gap:.2g}"


def _same_again(subject: Policy) -> tuple[bool, str]:
    (first, rows), (second, _) = _first(subject), _first(subject)
    outputs = [subject.apply(params, jnp.asarray(rows)) for params in (first, second)]
    same = equal(first, second) and equal(*outputs)
    return same, "same key, same bits" if same else "the same key gave other parameters or other outputs"


def _has_a_gradient(subject: Policy) -> tuple[bool, str]:
    params, rows = _first(subject)
    gradient = jax.grad(lambda p: jnp.sum((subject.apply(p, jnp.asarray(rows)) - 1.0) ** 2))(params)
    size = float(np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient))))
    return bool(np.isfinite(size) and size > 0), f"norm {size:.3g} on a squared loss"


def _single_precision(subject: Policy) -> tuple[bool, str]:
    params, rows = _first(subject, jnp.float32)
    outputs = subject.apply(params, jnp.asarray(rows, jnp.float32))
    types = {str(leaf.dtype) for leaf in [*jax.tree.leaves(params), outputs]}
    return types == {"float32"}, f"asked for float32, parameters and outputs are {', '.join(sorted(types))}"


def _goes_into_a_file(subject: Policy) -> tuple[bool, str]:
    back = from_config(json.loads(disk.to_json(subject.config())))
    same = back == subject and hash(back) == hash(subject)
    return same, "read back, it is the same" if same else f"read back, it is {back}"


def _linear_as_said(subject: Policy) -> tuple[bool | None, str]:
    if not subject.linear:
        return None, "it does not say that it is linear"
    params, rows = _first(subject)
    inputs = jnp.asarray(rows)
    moved = jax.tree.map(lambda leaf: leaf + 1.0, params)
    gap = float(jnp.abs(subject.apply(moved, inputs) - subject.design(inputs) @ moved).max())
    return gap <= 1e-9, f"apply and design(inputs) @ params differ by {gap:.2g}"


POLICY: dict[str, Check[Policy]] = {
    "answers in rows": _answers,
    "answers each row by itself": _row_by_row,
    "repeats itself": _same_again,
    "has a gradient": _has_a_gradient,
    "keeps its precision": _single_precision,
    "goes into a file and back": _goes_into_a_file,
    "is linear where it says so": _linear_as_said,
}

# ------------------------------------------------------------------------------------------------- losses


def loss(subject: str | Loss, *, progress: Progress | None = None) -> Report:
    """Puts a loss (an object or a registered name) through its suite; raises `CheckError` if it fails. What
    it states (`least`, `steepness`, `curvature`, `convex` with its conjugate) is tried on random outputs:
    that finds mistakes and proves nothing.

    >>> import understudy
    >>> understudy.checks.loss("huber").passed
    True
    """
    made = LOSSES.resolve(subject)
    with jax.enable_x64(True):
        return run_checks(f"loss {name_of(subject)}", made, LOSS, progress)


def _pairs(subject: Loss, seed: int = 0) -> tuple[jax.Array, jax.Array]:
    """Outputs near and far (n, k), and targets (n, k) as the loss takes them."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=(DRAWS, OUTPUTS)) * 10.0 ** rng.integers(-2, 3, (DRAWS, 1))
    targets = rng.normal(size=(DRAWS, OUTPUTS))
    if subject.logits:
        odds = np.exp(targets)
        targets = odds / (odds.sum(axis=1, keepdims=True) if subject.categorical else 1 + odds)
    else:
        outputs[: DRAWS // 10] = targets[: DRAWS // 10]  # met exactly
    return jnp.asarray(outputs), jnp.asarray(targets)


def _one_number(subject: Loss) -> tuple[bool, str]:
    check_loss(subject, OUTPUTS)
    values = jax.vmap(subject)(*_pairs(subject))
    finite = bool(jnp.isfinite(values).all())
    return finite and values.shape == (DRAWS,), f"{'' if finite else 'not '}finite on {DRAWS} pairs"


def _finite_gradient(subject: Loss) -> tuple[bool, str]:
    slopes = jax.vmap(jax.grad(subject))(*_pairs(subject))
    finite = bool(jnp.isfinite(slopes).all())
    return finite, f"{'' if finite else 'not '}finite on {DRAWS} pairs, some of them met exactly"


def _takes_answers(subject: Loss) -> tuple[bool, str]:
    answers = np.arange(6) % OUTPUTS if subject.categorical else np.asarray(_pairs(subject)[1][:6])
    rows = np.asarray(subject.targets(answers, OUTPUTS))
    good = rows.shape == (6, OUTPUTS) and rows.dtype.kind == "f"
    return good, f"rows {rows.shape} of {rows.dtype} from six answers"


def _least(subject: Loss) -> tuple[bool | None, str]:
    if not np.isfinite(subject.floor):
        return None, "it states none"
    lowest = float(jax.vmap(subject)(*_pairs(subject)).min())
    return lowest >= subject.floor - 1e-9, f"lowest value {lowest:.3g}, stated {subject.floor:.3g}"


def _steepness(subject: Loss) -> tuple[bool | None, str]:
    if not (subject.own("steepness") and np.isfinite(subject.steepness)):
        return None, "it states none"
    most = float(jnp.abs(jax.vmap(jax.grad(subject))(*_pairs(subject))).max())
    return most <= subject.steepness * (1 + 1e-9), f"largest slope {most:.3g}, stated {subject.steepness:.3g}"


def _curvature(subject: Loss) -> tuple[bool | None, str]:
    if not (subject.own("curvature") and np.isfinite(subject.curvature)):
        return None, "it states none"
    most = float(jnp.linalg.eigvalsh(jax.vmap(jax.hessian(subject))(*_pairs(subject))).max())
    return most <= subject.curvature * (1 + 1e-6), f"largest {most:.3g}, stated {subject.curvature:.3g}"


def _convex(subject: Loss) -> tuple[bool | None, str]:
    if not (subject.own("convex") and subject.convex):
        return None, "it does not say that it is"
    (first, targets), (second, _) = _pairs(subject), _pairs(subject, 1)
    value = jax.vmap(subject)
    ends = (value(first, targets) + value(second, targets)) / 2
    above = float((value((first + second) / 2, targets) - ends - 1e-9 * (1 + jnp.abs(ends))).max())
    return above <= 0, f"largest (middle − mean of the ends) {above:.3g}"


def _conjugate(subject: Loss) -> tuple[bool | None, str]:
    """``loss(z, y) ≥ <s, z> + dual(s, y)`` for every slope that `inside` gives."""
    if not (subject.own("convex") and subject.convex):
        return None, "it does not say that it is convex"
    if type(subject).dual is Loss.dual:
        return None, "it gives no conjugate, so its runs have an estimate and no certificate"
    (outputs, targets), (asked, _) = _pairs(subject), _pairs(subject, 1)
    slopes = jax.vmap(subject.inside)(asked, targets)
    duals, sizes = jax.vmap(subject.dual)(slopes, targets)
    below = jnp.sum(slopes * outputs, axis=1) + duals
    room = 1e-9 * (1 + sizes + jnp.sum(jnp.abs(slopes * outputs), axis=1))
    above = float((below - jax.vmap(subject)(outputs, targets) - room).max())
    return above <= 0, f"largest (lower bound − loss) {above:.3g}"


LOSS: dict[str, Check[Loss]] = {
    "is one number": _one_number,
    "has a finite gradient": _finite_gradient,
    "takes the expert's answers": _takes_answers,
    "is nowhere below its least": _least,
    "is nowhere steeper than it says": _steepness,
    "bends nowhere more than it says": _curvature,
    "is convex where it says so": _convex,
    "is above its conjugate's lines": _conjugate,
}

# ---------------------------------------------------------------------------------------------- ask rules


def ask(subject: str | Rule, *, progress: Progress | None = None) -> Report:
    """Puts an ask rule (an object, or a name with its number as in ``random:10``) through its suite; raises
    `CheckError` if it fails. It is shown a linear policy with three outputs.

    >>> import understudy
    >>> understudy.checks.ask("random:10").passed
    True
    """
    made = asking.rule(subject)
    return run_checks(
        f"ask rule {subject if isinstance(subject, str) else name_of(subject)}", made, ASK, progress
    )


def _view(rule: Rule, *, seed: int = 0, known: int = 20, most: int | None = None) -> asking.View:
    """A round of 40 states; what is labelled is no matter of the seed."""
    policy, rng = Linear(), np.random.default_rng(7)
    if (fits := getattr(rule, "fits", None)) is not None:
        fits(policy)
    rows, params = rng.normal(size=(40, FEATURES)), rng.normal(size=(FEATURES, OUTPUTS))
    labelled, labels = rng.normal(size=(known, FEATURES)), rng.normal(size=(known, OUTPUTS))
    return asking.View(
        rows=rows,
        known=labelled,
        targets=labels,
        policy=policy,
        params=params,
        loss=Squared(),
        most=40 if most is None else most,
        rng=np.random.default_rng(seed),
    )


def _chooses(rule: Rule) -> tuple[bool, str]:
    sizes = [
        len(chosen_by(rule, _view(rule, known=known, most=most)).index)
        for known in (0, 20)
        for most in (40, 3, 1)
    ]
    return True, f"{min(sizes)} to {max(sizes)} of 40 states, never more than may be"


def _counts(rule: Rule) -> tuple[bool | None, str]:
    if rule.count is None:
        return None, "it states no number"
    sizes = {most: len(chosen_by(rule, _view(rule, most=most)).index) for most in (40, 3)}
    good = all(size == min(rule.count, most, 40) for most, size in sizes.items())
    return good, f"{rule.count} stated; {sizes[40]} of 40, and {sizes[3]} where 3 may be"


def _chosen_again(rule: Rule) -> tuple[bool, str]:
    first, second = (chosen_by(rule, _view(rule, seed=3)) for _ in range(2))
    same = equal(tuple(first), tuple(second)) if len(first.index) == len(second.index) else False
    return same, "same seed, same states" if same else "the same round and seed gave other states"


def _leaves_the_view(rule: Rule) -> tuple[bool, str]:
    view = _view(rule)
    before = copy.deepcopy((view.rows, view.known, view.targets, view.params))
    chosen_by(rule, view)
    same = equal(before, (view.rows, view.known, view.targets, view.params))
    return same, "the round is untouched" if same else "choose changed the round it was shown"


def _reads(rule: Rule) -> tuple[bool | None, str]:
    if rule.reads:
        return None, "it reads what is labelled"
    chosen: list[Asked] = [chosen_by(rule, _view(rule, known=known)) for known in (0, 20)]
    same = np.array_equal(chosen[0].index, chosen[1].index)
    return same, "the same without labels" if same else "it reads view.known; say reads = True"


def _honest(rule: Rule) -> tuple[bool | None, str]:
    """1/p of those asked, summed, is the number of states on average."""
    if not rule.honest:
        return None, "it does not say that every state has a chance"
    sums = np.array([np.sum(1 / chosen_by(rule, _view(rule, seed=seed)).p) for seed in range(DRAWS)])
    error = 5 * sums.std() / np.sqrt(DRAWS) + 1e-9
    good = abs(sums.mean() - 40) <= error
    return bool(good), f"Σ 1/p is {sums.mean():.2f} ± {error:.2f} on average, of 40 states"


ASK: dict[str, Check[Rule]] = {
    "chooses of its states": _chooses,
    "asks about as many as it says": _counts,
    "repeats itself": _chosen_again,
    "leaves the round alone": _leaves_the_view,
    "reads labels only where it says so": _reads,
    "weighs without bias": _honest,
}

# ----------------------------------------------------------------------------- environments and experts


def env(subject: Environment, *, progress: Progress | None = None) -> Report:
    """Puts an environment (an id, ``module:function``, or a function that makes one) through its suite;
    raises `CheckError` if it fails. What it must do is what a run needs, to be resumed above all.

    >>> import understudy
    >>> understudy.checks.env("CartPole-v1").passed
    True
    """
    made = maker(subject)
    return run_checks(f"environment {made.name}", made, ENV, progress)


def _play(make: Maker, seed: int, steps: int = STEPS) -> tuple[Any, list[Nested], list[float], int]:
    """The environment (closed), observations and rewards of random steps, and how many episodes have ended;
    actions and the seeds of episodes follow from `seed`.
    """
    made = make.make()
    if is_pure(made):
        raise UserError(f"env: {make.name} is written in JAX; what is checked has reset(seed=…) and step.")
    made.action_space.seed(seed)
    observations, rewards, ended = [copy.deepcopy(made.reset(seed=seed)[0])], list[float](), 0
    for _ in range(steps):
        seen, reward, terminated, truncated, _ = made.step(made.action_space.sample())
        observations.append(copy.deepcopy(seen))
        rewards.append(float(reward))
        if terminated or truncated:
            ended += 1
            observations.append(copy.deepcopy(made.reset(seed=seed + ended)[0]))
    made.close()
    return made, observations, rewards, ended


def _leaves_of(observation: Nested) -> list[np.ndarray]:
    return [np.asarray(leaf) for _, leaf in parts(observation)]


def _in_its_spaces(make: Maker) -> tuple[bool, str]:
    made, observations, rewards, _ = _play(make, 0)
    outside = sum(not made.observation_space.contains(seen) for seen in observations)
    finite = bool(np.isfinite(rewards).all())
    strange = "" if finite else ", rewards that are not finite"
    return (
        not outside and finite,
        f"{outside} of {len(observations)} observations outside their space{strange}",
    )


def _replays(make: Maker) -> tuple[bool, str]:
    first, second = _play(make, 1), _play(make, 1)
    same = first[2] == second[2] and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for one, other in zip(first[1], second[1], strict=True)
        for a, b in zip(_leaves_of(one), _leaves_of(other), strict=True)
    )
    return same, "same seed and actions, same episode" if same else "the same seed gave another episode"


def _ends(make: Maker) -> tuple[bool, str]:
    made, _, _, ended = _play(make, 2, LONG)
    if has_limit(made):
        return True, "it has a limit"
    remedy = "" if ended else "; gymnasium.wrappers.TimeLimit ends them"
    return ended > 0, f"{ended} episodes ended in {LONG:,} steps{remedy}"


ENV: dict[str, Check[Maker]] = {
    "stays in its spaces": _in_its_spaces,
    "replays an episode": _replays,
    "ends": _ends,
}


def expert(subject: Source, env: Environment, *, progress: Progress | None = None) -> Report:
    """Puts an expert through its suite, on states of random play in `env`; raises `CheckError` if it fails.

    >>> import understudy
    >>> understudy.checks.expert(lambda observation: int(observation[2] > 0), "CartPole-v1").passed
    True
    """
    spec = RunSpec(env=env, expert=subject)
    teacher, seen = spaces_of(spec).expert, _play(maker(env), 3)[1]
    if teacher.needs_infos:
        raise UserError("expert: one that reads the environment's info cannot be checked without a run.")
    checks: dict[str, Check[Expert]] = {
        "answers in the action space": lambda one: _labels(one, seen),
        "answers one as it answers many": lambda one: _one_as_many(one, seen),
        "repeats itself": lambda one: _labels_again(one, seen),
    }
    return run_checks(f"expert {teacher.name}", teacher, checks, progress)


def _labels(one: Expert, seen: list[Nested]) -> tuple[bool, str]:
    try:
        labels = one.label(stack(seen))
    except UserError as error:  # here it is what is wrong with the expert
        raise ContractError(str(error)) from error
    return True, f"{len(labels)} labels of shape {labels.shape[1:]}"


def _one_as_many(one: Expert, seen: list[Nested]) -> tuple[bool, str]:
    together = one.label(stack(seen))
    alone = np.concatenate([one.label(take(stack(seen), [i])) for i in range(len(seen))])
    gap = float(np.abs(together.astype(float) - alone.astype(float)).max())
    return gap <= 1e-5 * (1 + float(np.abs(together).max())), f"alone and together differ by {gap:.2g}"


def _labels_again(one: Expert, seen: list[Nested]) -> tuple[bool | None, str]:
    if np.array_equal(one.label(stack(seen)), one.label(stack(seen))):
        return True, "same states, same answers"
    return None, "it draws its answers, or remembers"
