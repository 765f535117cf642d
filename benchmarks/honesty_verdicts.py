"""Verdicts of `honesty.py`: measured values compared with their bounds, printed with "ok" or "MISS"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import beta


@dataclass
class Verdicts:
    """Checks of one line; a non-finite value is a miss."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def at_most(self, name: str, value: float, bound: float, std_error: float | None = None) -> None:
        self._add(name, value, f"at most {bound:.4g}", value <= bound, std_error)

    def at_least(self, name: str, value: float, bound: float, std_error: float | None = None) -> None:
        self._add(name, value, f"at least {bound:.4g}", value >= bound, std_error)

    def within(
        self, name: str, value: float, low: float, high: float, std_error: float | None = None
    ) -> None:
        self._add(name, value, f"{low:.4g} to {high:.4g}", low <= value <= high, std_error)

    def _add(self, name: str, value: float, bound: str, is_within: bool, std_error: float | None) -> None:
        is_ok = bool(is_within and np.isfinite(value))
        row = {"name": name, "value": float(value), "bound": bound, "ok": is_ok}
        error = "" if std_error is None else f" ± {std_error:.4f}"
        print(f"  {'ok  ' if row['ok'] else 'MISS'} {name}: {value:.4f}{error} ({bound})", flush=True)
        self.rows.append(row if std_error is None else {**row, "std_error": float(std_error)})

    @property
    def hold(self) -> bool:
        return bool(self.rows) and all(row["ok"] for row in self.rows)


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean of independent values and its standard error; NaN without values."""
    all_values = np.asarray(values, float)
    if len(all_values) == 0:
        return float("nan"), float("nan")
    return float(all_values.mean()), float(all_values.std(ddof=1) / len(all_values) ** 0.5) if len(
        all_values
    ) > 1 else 0.0


def clopper_pearson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact confidence interval of a proportion k / n (Clopper and Pearson 1934)."""
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(1 - tail, k + 1, n - k))
    return low, high


def describe_fit(model: Any) -> dict[str, Any]:
    """Return the leaderboard score, its standard error, the p-value and the fallback as JSON values."""
    entry = next(entry for entry in model.leaderboard_ if entry["name"] == "this model")
    return {
        "score": float(entry["score"]),
        "std_error": float(entry["std_error"]),
        "p_value": model.p_value_,
        "fallback": model.fallback_,
    }
