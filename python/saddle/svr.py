"""The regression behind an attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core


class Fit:
    """An attention that is the optimum of its regression: keys are the inputs, values the scaled dual variables."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def values(self) -> np.ndarray:
        """(M,E): the values v of the attention."""
        return self._inner.values

    @property
    def multipliers(self) -> np.ndarray:
        """(M,E): net dual variables."""
        return self._inner.multipliers

    @property
    def bias(self) -> np.ndarray:
        """(E,): b, zeros without bias."""
        return np.asarray(self._inner.bias)

    @property
    def converged(self) -> bool:
        """Whether gap and KKT residual of every target reached their tolerances."""
        return self._inner.converged

    @property
    def channels(self) -> list[dict]:
        """One entry a target: status, primal and dual objective, KKT residual, support vectors, iterations."""
        return self._inner.channels

    def predict(self, x: np.ndarray) -> np.ndarray:
        """f at x (P,D) -> (P,E): the attention with queries x."""
        return self._inner.predict(x)


def fit(
    inputs: np.ndarray, targets: np.ndarray, attention: str = "rbf(gamma=0.5)+one", C: float = 1.0, epsilon: float = 0.1,
    bias: bool = False,
) -> Fit:
    """Fits the regression of an attention to inputs (M,D) and targets (M,E)."""
    return Fit(_core.fit(attention, inputs, targets, C, epsilon, bias))
