"""Students of your own: a module of PyTorch, an estimator of scikit-learn, or any object with four methods.

They are given as ``policy=`` wherever a policy is. Nothing here imports torch or scikit-learn before it is
asked for.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..policies import Job, Student

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

__all__ = ["Job", "Student", "sklearn", "torch"]


def torch(
    module: Module | Callable[[], Module],
    *,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    optimiser: Callable[[Iterable[Tensor]], Optimizer] | None = None,
) -> Student:
    """A student that is a module of PyTorch (the extra torch).

    Args:
      module: an `nn.Module` from rows (n, width) to outputs (n, k), mean actions or logits; bytes arrive as
        fractions of 255. Or a function without arguments that makes one: then the run's seed decides its
        first weights. It is copied, and learns where its parameters are, on the processor or a GPU.
      loss: a function of outputs (n, k) and labels (n, k) to losses (n,), of torch's operations; by default
        the run's own, if it is one of `understudy.losses`.
      optimiser: a function from parameters to one of torch's optimisers, made anew in every round, such as
        ``lambda parameters: torch.optim.SGD(parameters, lr=0.1)``; by default Adam, with the options of the
        run's solver (learning_rate, max_iterations, batch_size, decay, weight_decay, …).

    FTRL and AdaFTRL add their penalty to the loss: with the run's Adam by exact proximal steps, with another
    optimiser as a term.

    >>> import understudy  # doctest: +SKIP
    >>> net = understudy.students.torch(lambda: torch.nn.Linear(4, 2))  # doctest: +SKIP
    >>> understudy.imitate("CartPole-v1", policy=net, rounds=3)  # doctest: +SKIP
    """
    from .nets import Torch

    return Torch(module, loss, optimiser)


def sklearn(estimator: BaseEstimator) -> Student:
    """A student that is an estimator of scikit-learn, such as a tree or boosting (the extra sklearn).

    Args:
      estimator: a classifier where actions are choices, a regressor where they are numbers, not fitted. It is
        cloned and fitted anew in every round, with every ``random_state`` set from the run's seed.

    Its state is the labelled samples it was last fitted on, from which it is fitted again to the same bytes;
    nothing is pickled. It has no parameters, so that its learners are ftl and bc.

    >>> import understudy  # doctest: +SKIP
    >>> tree = sklearn.tree.DecisionTreeClassifier(max_leaf_nodes=16)  # doctest: +SKIP
    >>> understudy.imitate("CartPole-v1", policy=understudy.students.sklearn(tree))  # doctest: +SKIP
    """
    from .trees import Sklearn

    return Sklearn(estimator)
