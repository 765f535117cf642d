"""What a fitted automatic model claims of itself."""

from __future__ import annotations

from typing import Any


def describe_fit(model: Any) -> dict[str, Any]:
    """Leaderboard score with its standard error, p-value, and whether the model fell back (JSON values)."""
    entry = next(entry for entry in model.leaderboard_ if entry["name"] == "this model")
    return {
        "score": float(entry["score"]),
        "std_error": float(entry["std_error"]),
        "p_value": float(getattr(model, "p_value_", float("nan"))),
        "fallback": getattr(model, "fallback_", None),
    }
