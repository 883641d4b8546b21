"""An estimator of scikit-learn as a student."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..errors import UserError, import_extra, kind_of
from ..policies import Job
from ..policies.guest import State

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LEAST_PROBABILITY = 1e-9
"""The probability of a choice that an estimator thinks impossible."""


@final
class Sklearn:
    """What `students.sklearn` returns."""

    parametric = False
    options = ()

    def __init__(self, estimator: BaseEstimator):
        base = import_extra("sklearn.base", "students: an estimator of scikit-learn", "sklearn")
        if not isinstance(estimator, base.BaseEstimator):
            raise UserError(
                f"policy: students.sklearn takes an estimator of scikit-learn, got {kind_of(estimator)}."
            )
        self.part = estimator
        self.name = type(estimator).__name__
        self._classifies = base.is_classifier(estimator)
        if not (self._classifies or base.is_regressor(estimator)):
            raise UserError(
                f"policy: {type(estimator).__name__} is neither a classifier nor a regressor of scikit-learn."
            )
        self.estimator: Any = None
        """The fitted clone; None before the first round."""
        self._outputs = 0
        self._arrays: State = {}

    def begin(self, job: Job) -> None:
        """Refuses an estimator that does not fit the actions."""
        name, loss = type(self.part).__name__, job.loss
        if loss is not None and loss.logits != self._classifies:
            kind, wanted = ("classifier", "numbers") if self._classifies else ("regressor", "choices")
            other = "regressor" if self._classifies else "classifier"
            raise UserError(f"policy: {name} is a {kind} and the actions are {wanted}; give a {other}.")
        if self._classifies and (getattr(loss, "groups", None) or (loss and not loss.categorical)):
            raise UserError(
                f"policy: {name} makes one choice, and the run several at once; cross-entropy on Discrete "
                "actions is accepted."
            )
        self._outputs = job.outputs
        self._arrays = {
            "rows": np.zeros((0, job.features), np.float32),
            "labels": np.zeros((0, job.outputs), np.float32),
            "weights": np.zeros(0, np.float32),
            "draws": np.array([job.seed, 0], np.int64),
        }

    def act(self, rows: np.ndarray) -> np.ndarray:
        if self.estimator is None:
            return np.zeros((len(rows), self._outputs), np.float32)
        if not self._classifies:
            return np.reshape(self.estimator.predict(rows), (len(rows), -1)).astype(np.float32)
        logits = np.full((len(rows), self._outputs), np.log(LEAST_PROBABILITY), np.float32)
        classes = np.asarray(self.estimator.classes_, int)
        if hasattr(self.estimator, "predict_proba"):
            logits[:, classes] = np.log(np.maximum(self.estimator.predict_proba(rows), LEAST_PROBABILITY))
        else:
            logits[np.arange(len(rows)), np.asarray(self.estimator.predict(rows), int)] = 0.0
        return logits

    def fit(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        *,
        proximal: tuple[State, float] | None = None,
    ) -> None:
        assert proximal is None  # which a run refuses before it begins
        draws = self._arrays["draws"] + np.array([0, 1])
        self._arrays = {"rows": rows, "labels": labels, "weights": weights, "draws": draws}
        self._refit()

    def _refit(self) -> None:
        """Fits the estimator to the samples of the state."""
        from sklearn.base import clone
        from sklearn.utils import get_tags
        from sklearn.utils.validation import has_fit_parameter

        rows, labels, weights, draws = (self._arrays[name] for name in ("rows", "labels", "weights", "draws"))
        made = clone(self.part)
        seed = int(np.random.SeedSequence(draws.tolist()).generate_state(1)[0])
        names = [name for name in made.get_params() if name.split("__")[-1] == "random_state"]
        made.set_params(**dict.fromkeys(names, seed))
        alone = labels.shape[1] == 1 and get_tags(made).target_tags.single_output
        answers = labels[:, 0] if alone else labels
        if self._classifies:  # of a distribution every choice with its share
            which, answers = np.nonzero(labels)
            rows, weights = rows[which], weights[which] * labels[which, answers]
        if has_fit_parameter(made, "sample_weight"):
            made.fit(rows, answers, sample_weight=weights)
        elif np.allclose(weights, weights[0]):
            made.fit(rows, answers)
        else:
            raise UserError(
                f"policy: {type(made).__name__} takes no sample_weight, and the rounds differ in size; "
                "weigh='labels', which weighs all labels alike, is accepted."
            )
        self.estimator = made

    def state(self) -> State:
        return self._arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays, self.estimator = dict(arrays), None
        if len(arrays["rows"]):
            self._refit()
