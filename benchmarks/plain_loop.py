"""What somebody who needs one thing only would write instead of using this package: every plain loop of the
benchmarks.

NumPy on preallocated arrays and running sums, SciPy where it has the solver, a compiled scan where JAX is
quicker. No checks, no ledger, no files, no certificate. Each benchmark asserts that its loop here and the
package come to the same answer. JAX is imported where it is needed, so that a plain process starts quickly.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-8


class Network:
    """A network as a matrix product a layer, into buffers that are kept: ReLU inside, tanh at the end where
    `squashed`. Layers are pairs (weight, bias); `rows` None: of one row (features,) at a time.
    """

    def __init__(
        self, layers: list[tuple[np.ndarray, np.ndarray]], rows: int | None = None, *, squashed: bool = True
    ):
        self.layers, self.squashed = layers, squashed
        front = () if rows is None else (rows,)
        self.buffers = [np.empty((*front, len(bias)), bias.dtype) for _, bias in layers]

    @classmethod
    def shipped(cls, name: str, rows: int) -> Network:
        """A shipped expert, from its file of weights."""
        from safetensors.numpy import load_file

        import understudy  # its place on the disk alone

        held = load_file(Path(understudy.__file__).parent / "experts" / "weights" / f"{name}.safetensors")
        keys = sorted(key for key in held if key.endswith("weight"))
        return cls([(held[key], held[key.replace("weight", "bias")]) for key in keys], rows)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Outputs (…, k) of x (…, features); the next call writes over them."""
        last = len(self.layers) - 1
        for i, ((weight, bias), out) in enumerate(zip(self.layers, self.buffers, strict=True)):
            np.dot(x, weight, out=out)
            np.add(out, bias, out=out)
            if i < last:
                np.maximum(out, 0, out=out)
            x = out
        return np.tanh(x, out=x) if self.squashed else x


class Learner:
    """FTL, FTRL (Alt-FTRL is the same where solves are exact), AdaFTRL, OGD and AdaGrad on the squared loss,
    on running sums: ``l_t(w) = ||X w − Y||²/M`` is its Gram matrix H and its B, and ``∇l_t(w) = 2(H w − B)``.
    """

    def __init__(self, name: str, step: float, features: int, outputs: int):
        self.name, self.step, self.rounds, self.squares, self.weight = name, step, 0, 0.0, 0.0
        self.w, self.centre = (np.zeros((features, outputs)) for _ in range(2))
        self.H, self.B = np.zeros((features, features)), np.zeros((features, outputs))
        self.eye = np.eye(features)

    def update(self, X: np.ndarray, Y: np.ndarray) -> float:
        """Takes a round's samples; returns its loss before the update."""
        self.rounds += 1
        H, B = X.T @ X / len(X), X.T @ Y / len(X)
        pull, square = H @ self.w, float(np.vdot(Y, Y)) / len(X)
        loss, gradient = float(np.vdot(self.w, pull - 2 * B)) + square, 2 * (pull - B)
        if self.name == "ftl":
            self.H += H
            self.B += B
            self.w = self.w + np.linalg.lstsq(self.H, self.B - self.H @ self.w, rcond=1e-15)[0]
            return loss
        self.squares += float(np.vdot(gradient, gradient))
        adaptive = self.name in ("adaftrl", "adagrad")
        weight = (self.squares if adaptive else self.rounds) ** 0.5 / self.step
        if self.name in ("ogd", "adagrad"):
            self.w = self.w - gradient / weight
            return loss
        self.H += H
        self.B += B
        self.centre += (weight - self.weight) / weight * (self.w - self.centre)
        self.weight = weight
        self.w = np.linalg.solve(2 * self.H + weight * self.eye, 2 * self.B + weight * self.centre)
        return loss


class Factor:
    """FTL on the squared loss by the triangular factor of [X Y], one QR a round: what the package does, since
    a Gram matrix has the square of the condition number.
    """

    def __init__(self, features: int, outputs: int):
        self.R = np.zeros((features + outputs, features + outputs))
        self.features, self.w = features, np.zeros((features, outputs))

    def update(self, X: np.ndarray, Y: np.ndarray) -> None:
        rows = np.hstack([X, Y]) / len(X) ** 0.5
        self.R, d = np.linalg.qr(np.vstack([self.R, rows]), mode="r"), self.features
        self.w = np.linalg.lstsq(self.R[:d, :d], self.R[:d, d:], rcond=1e-15)[0]


def hopper(
    learner: Learner, rounds: int, size: int, noise: Iterable[np.ndarray], seeds: Iterator[int] | None = None
) -> list[float]:
    """Imitation on Hopper-v5 with a linear policy, MuJoCo called as Gymnasium calls it: the loss of each
    round. `noise` (size, 3) is added to a round's actions. `seeds` are those of the episodes where they must
    be those of another run; without them a reset takes half the time.
    """
    import gymnasium
    import mujoco

    env: Any = gymnasium.make("Hopper-v5").unwrapped
    expert, model, data, advance = Network.shipped("sac-Hopper-v5", size), env.model, env.data, mujoco.mj_step
    qpos, qvel, control, skip = data.qpos, data.qvel, data.ctrl, env.frame_skip
    velocity, row, action, single = np.empty(6), np.empty(11), np.empty(3), np.empty(3, np.float32)
    X, losses, steps = np.empty((size, 11), np.float32), [], 0
    env.reset(seed=None if seeds is None else next(seeds))
    for _, drawn in zip(range(rounds), noise, strict=False):
        for i in range(size):
            np.maximum(qvel, -10, out=velocity)
            np.minimum(velocity, 10, out=velocity)
            X[i, :5], X[i, 5:] = qpos[1:], velocity
            row[:] = X[i]
            np.dot(row, learner.w, out=action)
            action += drawn[i]
            np.maximum(action, -1, out=action)
            np.minimum(action, 1, out=action)
            single[:] = action
            control[:] = single
            advance(model, data, nstep=skip)
            steps += 1
            _, z, angle, *joints = qpos.tolist()
            fine = z > 0.7 and -0.2 < angle < 0.2 and max(map(abs, (*joints, *qvel.tolist()))) < 100
            if not fine or steps == 1000:
                env.reset(seed=None if seeds is None else next(seeds))
                steps = 0
        losses.append(learner.update(X.astype(float), expert(X).astype(float)))
    env.close()
    return losses


def physics(actions: np.ndarray, ends: np.ndarray, seeds: Iterator[int]) -> None:
    """MuJoCo alone: the actions (n, 3) of a run once more, with its episodes' ends (n,) and seeds."""
    import gymnasium
    import mujoco

    env: Any = gymnasium.make("Hopper-v5").unwrapped
    model, data, control, skip = env.model, env.data, env.data.ctrl, env.frame_skip
    env.reset(seed=next(seeds))
    for action, ended in zip(actions, ends.tolist(), strict=True):
        control[:] = action
        mujoco.mj_step(model, data, nstep=skip)
        if ended:
            env.reset(seed=next(seeds))
    env.close()


def noisy(seed: int, size: int, scale: float = 0.1) -> Iterator[np.ndarray]:
    """The paper's exploration noise, round by round."""
    rng = np.random.default_rng(seed)
    while True:
        yield scale * rng.standard_normal((size, 3), np.float32)


def study(jobs: list[tuple[str, float, int]], rounds: int, size: int) -> list[list[float]]:
    """The losses of runs (learner, step, seed) on Hopper, one after another: the work of a process."""
    return [hopper(Learner(name, step, 11, 3), rounds, size, noisy(seed, size)) for name, step, seed in jobs]


def of_a_run(seed: int, size: int, rounds: int) -> tuple[list[np.ndarray], Iterator[int]]:
    """The noise and the episodes' seeds of a run of the package, so that `hopper` plays the same run."""
    from understudy.envs.gymnasium import derive

    rngs = (np.random.default_rng(derive(seed, "noise", t + 1)) for t in range(rounds))
    noise = [(0.1 * rng.standard_normal((size, 3))).astype(np.float32) for rng in rngs]
    return noise, (derive(seed, "collect", 0, number) for number in itertools.count())


def same_as_a_run(learner: str, step: float, seed: int, rounds: int = 3, size: int = 1000) -> float:
    """How far the losses of this plain loop are from the package's on the same run, at most and relative."""
    import understudy

    settings: dict[str, Any] = {"policy": "linear", "preset": "paper", "episodes": 0, "expert_episodes": 0}
    settings |= {"rounds": rounds, "steps_per_round": size, "seed": seed, "comparator": "none"}
    if learner != "ftl":
        settings["alpha" if learner.startswith("ada") else "eta"] = step
    ours = understudy.imitate("Hopper-v5", learner=learner, **settings).ledger["loss"]
    plain = hopper(Learner(learner, step, 11, 3), rounds, size, *of_a_run(seed, size, rounds))
    away = float(np.max(np.abs(plain - ours) / ours))
    assert away < 1e-3, f"{learner}: the plain loop's losses are {away:.1e} from the package's"
    return away


def adam(
    apply: Callable[..., Any], loss: Callable[..., Any], *, size: int, steps: int, cosine: bool = False
) -> Callable[..., Any]:
    """A compiled loop of Adam on minibatches drawn on the device: (params, inputs, targets, key, rows) to
    params. ``loss(outputs, targets)`` gives one number a sample.
    """
    import jax
    import optax

    rule = optax.adam(optax.cosine_decay_schedule(1e-3, steps) if cosine else 1e-3)

    def train(params: Any, inputs: Any, targets: Any, key: Any, rows: Any) -> Any:
        def value(params: Any, x: Any, y: Any) -> Any:
            return loss(apply(params, x), y).mean()

        def step(carry: Any, key: Any) -> Any:
            params, state = carry
            at = jax.random.randint(key, (size,), 0, rows)
            update, state = rule.update(jax.grad(value)(params, inputs[at], targets[at]), state)
            return (optax.apply_updates(params, update), state), None

        return jax.lax.scan(step, (params, rule.init(params)), jax.random.split(key, steps))[0][0]

    return train


def stream(X: np.ndarray, y: np.ndarray, eta: float, adaptive: bool) -> np.ndarray:
    """OGD or AdaGrad on the logistic loss, one sample (features,) a round: the logits said before each
    update.
    """
    import math

    w, said, squares, exp = np.zeros(X.shape[1]), np.empty(len(X)), 0.0, math.exp
    for t, (x, answer) in enumerate(zip(X, y.tolist(), strict=True)):
        z = said[t] = x.dot(w)
        slope = 1 / (1 + exp(-z)) - answer
        squares += slope * slope * x.dot(x)
        w -= (eta / math.sqrt(squares if adaptive else t + 1) * slope) * x
    return said


def stream_scan(X: Any, y: Any, eta: float, adaptive: bool) -> Any:
    """The same as a scan, to be compiled."""
    import jax
    import jax.numpy as jnp

    def step(carry: Any, one: Any) -> Any:
        w, squares, t = carry
        x, answer = one
        z = x @ w
        gradient = (jax.nn.sigmoid(z) - answer) * x
        squares = squares + gradient @ gradient
        w = w - eta / jnp.sqrt(squares if adaptive else t) * gradient
        return (w, squares, t + 1), z

    return jax.lax.scan(step, (jnp.zeros(X.shape[1]), 0.0, 1.0), (X, y))[1]


def best_logistic(X: np.ndarray, y: np.ndarray, rounds: Iterator[int] | range) -> np.ndarray:
    """The least logistic loss of the first n samples for every n in `rounds`, by Newton from the last one;
    zero where the samples can be separated.
    """
    from scipy import special

    w, found = np.zeros((1, X.shape[1])), []
    signs = 2.0 * y - 1.0
    for n in rounds:
        A, b = X[:n], signs[:n]

        def value(w: np.ndarray, A: np.ndarray = A, b: np.ndarray = b) -> float:
            return float(np.logaddexp(0, -b * (A @ w[0])).sum())

        def slope(w: np.ndarray, A: np.ndarray = A, b: np.ndarray = b) -> tuple[np.ndarray, np.ndarray]:
            away = special.expit(-b * (A @ w[0]))
            return -(b * away)[None] @ A, ((A.T * (away * (1 - away))) @ A)[None]

        w = newton(w, value, slope)
        found.append(value(w))
    return np.array(found)


def newton(w: np.ndarray, value: Callable[..., float], slope: Callable[..., Any]) -> np.ndarray:
    """Newton's method with backtracking, regularised by the gradient's norm, to a gradient of 1e-8. Of w (b,
    m) the Hessian is b blocks (b, m, m), and has no others.
    """
    now, eye = value(w), np.eye(w.shape[1])
    for _ in range(100):
        gradient, hessian = slope(w)
        length = float(np.linalg.norm(gradient))
        if length <= TOLERANCE:
            break
        ridge = min(1e-3, length) * 1e-3 + 1e-14 * float(np.abs(hessian).max())
        move = np.linalg.solve(hessian + ridge * eye, gradient[..., None])[..., 0]
        size, gain = 1.0, float(np.vdot(gradient, move))
        while (new := value(w - size * move)) > now - 1e-4 * size * gain and size > 1e-10:
            size *= 0.5
        if size <= 1e-10:
            break
        w, now = w - size * move, new
    return w


def farthest(rows: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
    """The greedy centres of rows (n, d) beside those known (m, d): each the farthest from all before."""
    squares = np.einsum("ij,ij->i", rows, rows)
    away = squares + np.min(np.einsum("ij,ij->i", known, known) - 2.0 * rows @ known.T, axis=1)
    chosen = np.empty(count, int)
    for i in range(count):
        k = chosen[i] = int(away.argmax())
        np.minimum(away, squares - 2.0 * (rows @ rows[k]) + squares[k], out=away)
        away[k] = -np.inf
    return chosen


def toy(
    kind: str, X: np.ndarray, Y: np.ndarray, learner: str, step: float, budget: float, how: str
) -> tuple[float, np.ndarray]:
    """A run of the toy problem with FTL, or FTRL with η_t = step/√t, from zero: processor seconds, and the
    losses of the rounds played before `budget` seconds were over. `how`: "armijo", the paper's descent to
    1e-8 (on arrays), or "best", the best method for the loss that NumPy and SciPy have.
    """
    began, losses = time.process_time(), []
    w, centre, old = np.zeros((X.shape[1], Y.shape[1])), np.zeros((X.shape[1], Y.shape[1])), 0.0
    sums: list[np.ndarray] = [np.zeros((X.shape[1], X.shape[1])), np.zeros_like(w)]
    duals = np.zeros((0, Y.shape[1]))
    for t in range(1, len(X) + 1):
        if time.process_time() - began > budget:
            break
        A, B = X[:t], Y[:t]
        losses.append(_value(kind, A[-1:], B[-1:], w)[0])
        weight = 0.0 if learner == "ftl" else t**0.5 / step
        centre = w if learner == "ftl" else centre + (weight - old) / weight * (w - centre)
        old = weight
        if how == "armijo":
            w = _armijo(kind, A, B, w, centre, weight)
        elif kind == "squared":
            sums[0] += np.outer(A[-1], A[-1])
            sums[1] += np.outer(A[-1], B[-1])
            left, right = 2 * sums[0] + weight * np.eye(len(w)), 2 * (sums[1] - sums[0] @ centre)
            singular = not weight and t < 2 * len(w)
            w = centre + (np.linalg.lstsq(left, right)[0] if singular else np.linalg.solve(left, right))
        elif kind == "absolute":
            duals = np.concatenate([duals, np.zeros((1, Y.shape[1]))])
            w, duals = _absolute(A, B, centre, weight, duals)
        else:
            w = _smooth(kind, A, B, w, centre, weight)
    return time.process_time() - began, np.array(losses)


def _value(kind: str, X: np.ndarray, Y: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray]:
    """The summed loss, and its slopes by output (n, k)."""
    out = X @ w
    if kind == "logistic":
        out -= out.max(axis=1, keepdims=True)
        exp = np.exp(out)
        total = exp.sum(axis=1, keepdims=True)
        return float(np.log(total).sum() - np.vdot(Y, out)), exp / total - Y
    error = out - Y
    if kind == "squared":
        return float(np.vdot(error, error)), 2.0 * error
    if kind == "absolute":
        return float(np.abs(error).sum()), np.sign(error)
    inside = np.clip(error, -1.0, 1.0)
    return float(np.vdot(inside, error - 0.5 * inside)), inside


def _armijo(
    kind: str, X: np.ndarray, Y: np.ndarray, w: np.ndarray, centre: np.ndarray, weight: float
) -> np.ndarray:
    """The paper's inner solver: descent to 1e-8 of the mean, at most 1,000 steps, each search from step 1."""

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = _value(kind, X, Y, w)
        away = w - centre
        value += 0.5 * weight * float(np.vdot(away, away))
        return value / len(X), (X.T @ slopes + weight * away) / len(X)

    for _ in range(1000):
        value, gradient = objective(w)
        square = float(np.vdot(gradient, gradient))
        if square**0.5 <= TOLERANCE:
            break
        step = 1.0
        while step > 2.0**-60 and objective(w - step * gradient)[0] > value - 1e-4 * step * square:
            step *= 0.5
        if step <= 2.0**-60:
            break  # no step decreases it any more: the subgradient of a kink, or rounding
        w = w - step * gradient
    return w


def _smooth(
    kind: str, X: np.ndarray, Y: np.ndarray, w: np.ndarray, centre: np.ndarray, weight: float
) -> np.ndarray:
    """Newton for the Huber loss, whose outputs do not meet in the Hessian, and the logistic one."""
    d, k = w.shape
    blocks = k if kind == "huber" else 1
    eye = weight * np.eye(d * k // blocks)

    def value(flat: np.ndarray) -> float:
        at = flat.reshape(k, d).T
        away = at - centre
        return _value(kind, X, Y, at)[0] + 0.5 * weight * float(np.vdot(away, away))

    def slope(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = flat.reshape(k, d).T
        slopes = _value(kind, X, Y, at)[1]
        gradient = (X.T @ slopes + weight * (at - centre)).T.reshape(blocks, -1)
        if kind == "huber":
            inside = (np.abs(slopes) < 1).T
            return gradient, (X.T * inside[:, None]) @ X + eye
        p = slopes + Y
        each = (X.T * p.T[:, None]).reshape(k * d, -1)
        hessian = -each @ each.T
        for i in range(k):
            block = slice(i * d, (i + 1) * d)
            hessian[block, block] += each[block] @ X
        return gradient, hessian[None] + eye

    return newton(w.T.reshape(blocks, -1), value, slope).reshape(k, d).T


def _absolute(
    X: np.ndarray, Y: np.ndarray, centre: np.ndarray, weight: float, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The absolute loss by its dual, slopes s in [−1, 1]: HiGHS' simplex (a linear program an output) without
    a penalty, and L-BFGS-B from the last round's slopes with one, where ``w = c − Xᵀs/Λ``.
    """
    from scipy.optimize import linprog, minimize

    if not weight:
        bounds = (-1.0, 1.0)
        made = [
            linprog(y, A_eq=X.T, b_eq=np.zeros(X.shape[1]), bounds=bounds, method="highs-ds") for y in Y.T
        ]
        # The multiplier of Xᵀs = 0 is w: the slopes of the dual's optimum.
        return np.stack([one.eqlin.marginals for one in made], axis=1), start
    ahead, shape = X @ centre - Y, start.shape

    def dual(flat: np.ndarray) -> tuple[float, np.ndarray]:
        s = flat.reshape(shape)
        total = X.T @ s
        return 0.5 / weight * float(np.vdot(total, total)) - float(np.vdot(s, ahead)), (
            X @ total / weight - ahead
        ).ravel()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(
        dual, start.ravel(), jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * start.size, options=options
    )
    s = found.x.reshape(shape)
    return centre - X.T @ s / weight, s
