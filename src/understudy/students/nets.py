"""A module of PyTorch as a student."""

# pyright: reportMissingImports=false

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ..errors import UserError, import_extra, kind_of
from ..losses import Absolute, BinaryCrossEntropy, CrossEntropy, Huber, Squared
from ..policies import Job
from ..policies.guest import State

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

    from ..losses import Loss
    from ..solvers import Adam

    Rows: TypeAlias = np.ndarray | Tensor
    Lossy: TypeAlias = Callable[[Tensor, Tensor], Tensor]
    """A loss of outputs (n, k) and labels (n, k), in torch's operations: (n,)."""

DRAWN = "draws"
"""The entry of the state that what is random follows from: a seed, and how often the module was fitted."""
MODULE = "module."
"""How the entries of the module begin."""
OPSET = 17


@final
class Torch:
    """What `students.torch` returns."""

    parametric, device = True, True

    def __init__(
        self,
        module: Module | Callable[[], Module],
        loss: Lossy | None,
        optimiser: Callable[[Iterable[Tensor]], Optimizer] | None,
    ):
        torch = import_extra("torch", "students: a module of PyTorch", "torch")
        if not callable(module) or isinstance(module, type):
            raise UserError(
                "policy: students.torch takes an nn.Module or a function that makes one, got "
                f"{kind_of(module)}."
            )
        self.part, self.loss, self.optimiser = module, loss, optimiser
        self.module: Any = module if isinstance(module, torch.nn.Module) else None
        self._each: Any = loss
        self._solver: Any = None
        self._draws = np.zeros(2, np.int64)

    @property
    def name(self) -> str:
        """What the module is called, or the function that makes it."""
        name = getattr(self.part, "__name__", type(self.part).__name__)
        return "module" if name == "<lambda>" else name

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the run's solver that it takes."""
        steps = ("batch_size", "max_iterations", "passes", "most_passes")
        return steps if self.optimiser else (*steps, "learning_rate", "decay", "proximal", "weight_decay")

    def begin(self, job: Job) -> None:
        """Makes the module, where a function does, and a start of its own for another member."""
        import torch

        made = self.module is None
        with _random(torch, job.seed):
            if made:
                self.module = self.part()
            elif job.member:
                for part in self.module.modules():
                    if hasattr(part, "reset_parameters"):
                        part.reset_parameters()
        if not isinstance(self.module, torch.nn.Module):
            raise UserError(f"policy: the function given to students.torch made {kind_of(self.module)}.")
        if self._each is None and job.loss is not None:
            self._each = _loss(torch, job.loss)
        self._solver, self._draws = job.solver, np.array([job.seed, 0], np.int64)
        self.module.eval()

    def act(self, rows: np.ndarray) -> np.ndarray:
        import torch

        with torch.inference_mode():
            return self.module(self._tensor(torch, rows)).cpu().numpy()

    def fit(
        self,
        rows: Rows,
        labels: Rows,
        weights: Rows,
        *,
        proximal: tuple[State, float] | None = None,
    ) -> None:
        import torch

        options, size = self._solver, len(rows)
        batch = options.batch_size
        steps = _steps(options, size)
        x, y = self._tensor(torch, rows), self._tensor(torch, labels)
        w = self._tensor(torch, weights)
        w, rounds = w / w.sum(), float(np.asarray(weights, float).sum())  # the mean of the rounds' losses
        held = {name: one for name, one in self.module.named_parameters() if one.requires_grad}
        pull = None if proximal is None else _Pull(torch, held, proximal, rounds)
        adam = self.optimiser is None
        made = _adam(torch, held.values(), options) if adam else self.optimiser(held.values())  # type: ignore[misc]
        with _random(torch, *self._draws):
            self.module.train()
            for k in range(steps):
                rate = options.learning_rate * _left(options.decay, 1.0 - k / steps)
                if adam:
                    made.param_groups[0]["lr"] = rate
                index = slice(None) if batch is None else torch.randint(size, (batch,), device=x.device)
                scale = 1.0 if batch is None else size / batch
                loss = scale * (w[index] * self._each(self.module(x[index]), y[index])).sum()
                if pull is not None and not (adam and options.proximal):
                    loss = loss + pull.term()
                made.zero_grad()
                loss.backward()
                made.step()
                if pull is not None and adam and options.proximal:
                    pull.step(made, rate)
            self.module.eval()
        self._draws = self._draws + np.array([0, 1])

    def gradient(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> State:
        """That of ``Σ_i weights_i loss_i``, by the names of the state."""
        import torch

        self.module.zero_grad()
        x, y, w = (self._tensor(torch, one) for one in (rows, labels, weights))
        (w * self._each(self.module(x), y)).sum().backward()
        found = {
            MODULE + name: np.zeros(tuple(one.shape)) if one.grad is None else one.grad.cpu().numpy().copy()
            for name, one in self.module.named_parameters()
        }
        self.module.zero_grad()
        return found

    def state(self) -> State:
        if self.module is None:
            return {DRAWN: self._draws}
        arrays = {name: one.detach().cpu().numpy() for name, one in self.module.state_dict().items()}
        return {MODULE + name: one for name, one in arrays.items()} | {DRAWN: self._draws}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        import torch

        own = {k.removeprefix(MODULE): torch.as_tensor(v) for k, v in arrays.items() if k.startswith(MODULE)}
        self.module.load_state_dict(own)
        self._draws = np.array(arrays[DRAWN], np.int64)
        self.module.eval()

    def onnx(self, features: int) -> bytes:
        """The module as ONNX's bytes, by torch's own exporter."""
        import warnings

        import torch

        written, rows = io.BytesIO(), self._tensor(torch, np.zeros((2, features), np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # the exporter that writes for runtimes from 2022 on is not the newest
            torch.onnx.export(
                self.module,
                (rows,),
                written,
                input_names=["rows"],
                output_names=["outputs"],
                dynamic_axes={"rows": {0: "batch"}, "outputs": {0: "batch"}},
                opset_version=OPSET,
                dynamo=False,
            )
        return written.getvalue()

    def _tensor(self, torch: ModuleType, values: Rows) -> Tensor:
        """An array where the module is, of the type of its parameters; on a device it is not copied."""
        like = next(self.module.parameters())
        if not isinstance(values, np.ndarray):
            made = torch.from_dlpack(values)
        else:
            made = torch.from_numpy(values if values.flags.writeable else values.copy())
        share = 255.0 if made.dtype == torch.uint8 else None
        made = made.to(like.device, like.dtype)
        return made if share is None else made / share


class _Pull:
    """A penalty ``weight/2 ||w − centre||²`` over the parameters, divided by the rounds, as the loss is."""

    def __init__(
        self, torch: ModuleType, held: dict[str, Tensor], proximal: tuple[State, float], rounds: float
    ):
        centre, weight = proximal
        self._torch, self._weight = torch, weight / rounds
        self._pairs = [
            (one, torch.as_tensor(centre[MODULE + name]).to(one.device, one.dtype))
            for name, one in held.items()
        ]

    def term(self) -> Tensor:
        return self._weight / 2 * sum(((one - c) ** 2).sum() for one, c in self._pairs)

    def step(self, adam: Optimizer, rate: float) -> None:
        """The exact proximal step in Adam's own metric, see `solvers.Adam`."""
        with self._torch.no_grad():
            for one, c in self._pairs:
                kept = adam.state[one]
                fresh = 1.0 - 0.999 ** float(kept["step"])
                each = self._weight * rate / ((kept["exp_avg_sq"] / fresh).sqrt() + 1e-8)
                one.copy_((one + each * c) / (1.0 + each))


class _random:
    """What torch draws in the block follows from these numbers, and leaves its own state as it was."""

    def __init__(self, torch: ModuleType, *numbers: int | np.integer):
        self._torch = torch
        self._seed = int(np.random.SeedSequence([int(one) for one in numbers]).generate_state(1)[0])

    def __enter__(self) -> None:
        self._fork = self._torch.random.fork_rng()
        self._fork.__enter__()
        self._torch.manual_seed(self._seed)

    def __exit__(self, *error: BaseException | type[BaseException] | TracebackType | None) -> None:
        self._fork.__exit__(*error)


def _adam(torch: ModuleType, parameters: Iterable[Tensor], options: Adam) -> Optimizer:
    """Adam as `solvers.Adam` is: weight decay beside the moments."""
    return torch.optim.AdamW(parameters, options.learning_rate, weight_decay=options.weight_decay or 0.0)


def _steps(options: Any, size: int) -> int:
    """How many steps a round takes, see `solvers.Adam.limit`."""
    steps = options.max_iterations
    if options.passes is not None:
        steps = max(steps, int(options.passes * size / options.batch_size))
    if options.most_passes is not None:
        steps = min(steps, int(options.most_passes * size / options.batch_size))
    return max(int(steps), 1)


def _left(decay: str, left: float) -> float:
    """What is left of the step, see `solvers.DECAYS`."""
    return {"none": 1.0, "linear": left, "cosine": 0.5 - 0.5 * math.cos(math.pi * left)}[decay]


def _loss(torch: ModuleType, loss: Loss) -> Lossy:
    """A loss of the package in torch's operations: outputs (n, k) and labels (n, k) to losses (n,)."""
    F, none = torch.nn.functional, {"reduction": "none"}
    if type(loss) is Squared:
        return lambda z, y: loss.scale * F.mse_loss(z, y, **none).sum(1)
    if type(loss) is Huber:
        return lambda z, y: F.huber_loss(z, y, delta=loss.delta, **none).sum(1)
    if type(loss) is Absolute and not loss.rounding:
        return lambda z, y: F.l1_loss(z, y, **none).sum(1)
    if type(loss) is BinaryCrossEntropy:
        return lambda z, y: F.binary_cross_entropy_with_logits(z, y, **none).sum(1)
    if type(loss) is CrossEntropy:
        sizes = loss.groups
        if sizes is None:
            return lambda z, y: F.cross_entropy(z, y, **none)
        return lambda z, y: sum(
            F.cross_entropy(a, b, **none) for a, b in zip(z.split(sizes, 1), y.split(sizes, 1), strict=True)
        )
    raise UserError(
        f"loss: {type(loss).__name__} is not written in torch; give students.torch a loss of its own."
    )
