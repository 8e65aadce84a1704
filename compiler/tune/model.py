"""A learned model of plans: which of them are among the best fifth of their task.

Gradient-boosted trees (LightGBM) tell the best fifth of what was measured from the rest. A plan of
the fifth weighs the more, the further it is below the best of the rest, as in likelihood-free
Bayesian optimization (Song et al., ICML 2022); a failure is one of the rest. Values count relative
to the best of their task, so that what other tasks taught serves from the first trial.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from types import ModuleType
from typing import Protocol

import numpy as np

from compiler.errors import RequestError
from compiler.tune.space import Candidate, Result

SHARE = 0.2             # of plans that are the best: of a tenth there are too few at first
LEAST = 12              # lessons before anything is learned
ROUNDS = 60
PARAMETERS = {
    "objective": "binary", "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 3,
    "num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": 0, "verbosity": -1,
    "feature_pre_filter": False}
SEVERAL = 1 / 3         # the weight of lessons of other tasks

Scores = Callable[[Sequence[Candidate]], Sequence[float]]
"""Says how promising candidates are: the higher, the more."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The result of a plan with these features, as a multiple of the best value of its task:
    infinity where it failed.
    """

    features: tuple[float, ...]
    excess: float


def lessons(trials: Iterable[tuple[Candidate, Result]]) -> list[Lesson]:
    """The lessons of all trials of one task. Candidates without features teach nothing."""
    known = [(candidate, result) for candidate, result in trials if candidate.features]
    least = min((result.value for _, result in known if result.value is not None), default=inf)
    return [Lesson(candidate.features,
                   inf if result.value is None else result.value / least if least > 0 else 1.0)
            for candidate, result in known]


class Teachable(Protocol):
    """A model that learns from the trials of a task; None where that is too little."""

    def learned(self, trials: Iterable[tuple[Candidate, Result]]) -> Scores | None: ...


class CostModel:
    """Learns from trials, and from the `lessons` of other tasks. The same trials in the same order
    lead to the same scores.

    Raises RequestError where LightGBM is missing.
    """

    def __init__(self, lessons: Iterable[Lesson] = ()):
        self._lightgbm = _lightgbm()
        self._others = tuple(lessons)

    def learned(self, trials: Iterable[tuple[Candidate, Result]]) -> Scores | None:
        """Scores candidates by what the trials teach; None where that is too little."""
        own = lessons(trials)
        known = [*own, *self._others]
        if len(known) < LEAST:
            return None
        labels = np.zeros(len(known))
        weights = np.ones(len(known))
        for begin, part in ((0, own), (len(own), self._others)):
            _judge([lesson.excess for lesson in part], labels[begin:], weights[begin:])
        if own:
            weights[len(own):] *= SEVERAL
        if not 0 < labels.sum() < len(labels):
            return None
        data = self._lightgbm.Dataset(np.array([lesson.features for lesson in known]), labels,
                                      weight=weights)
        trees = self._lightgbm.train(PARAMETERS, data, ROUNDS)

        def scores(candidates: Sequence[Candidate]) -> Sequence[float]:
            if not candidates:
                return ()
            return trees.predict(np.array([one.features for one in candidates])).tolist()

        return scores


def _judge(excesses: Sequence[float], labels: np.ndarray, weights: np.ndarray) -> None:
    """Labels the best fifth, and weighs it so that it counts as much as the rest altogether."""
    finite = sorted(value for value in excesses if isfinite(value))
    if not finite:
        return
    last = finite[min(max(round(SHARE * len(excesses)), 1), len(finite)) - 1]
    beyond = finite[min(len(finite) - 1, finite.index(last) + 1)]
    best = [place for place, value in enumerate(excesses) if value <= last]
    gains = np.array([max(beyond, 1.01 * last) - excesses[place] for place in best])
    labels[best] = 1
    weights[best] = gains / gains.sum() * max(len(excesses) - len(best), 1)


def _lightgbm() -> ModuleType:
    try:
        import lightgbm
    except ImportError:
        raise RequestError("The cost model needs LightGBM: pip install 'lockstep-hw[tune]'"
                           ) from None
    return lightgbm
