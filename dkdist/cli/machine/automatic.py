"""``dkdist fit --automatic``: a model without choices, of which the best candidate alone goes into a model file."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, NamedTuple

from numpy.typing import NDArray

import dkdist
from dkdist.cli.options import FEATURES
from dkdist.cli.output.terminal_text import escape_controls

CHOICES = (*FEATURES, "learner", "alphas", "epochs", "checkpoint")


class Chosen(NamedTuple):
    """What is saved; of an automatic model its name among the candidates, what was tried, and that in words."""

    model: Any
    saved: str | None
    leaderboard: list[dict[str, Any]] | None
    summary: str | None


def require_no_choices(args: Namespace) -> None:
    """Refuse choices beside ``--automatic``, which makes them, and a budget without it."""
    if not args.automatic:
        if args.budget is not None:
            raise ValueError("--budget is for --automatic: give both, or leave it out")
        return
    given = [name for name in CHOICES if getattr(args, name) is not None]
    if given:
        named = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"--automatic chooses by itself: leave out {named}, or --automatic")
    if args.progress:
        raise ValueError("--automatic shows no progress: leave out --progress")


def automatic_model(args: Namespace, task: str, sets: Any, targets: NDArray[Any]) -> Chosen:
    """Try what the sets allow; what is told is of the average of the best, what a file can hold the best one alone."""
    kind = dkdist.SetClassifier if task == "classify" else dkdist.SetRegressor
    tried = kind(budget=args.budget, random_state=args.seed).fit(sets, targets)
    try:
        best = tried.best_estimator_
    except AttributeError as error:
        print(escape_controls(tried.summary()))
        raise ValueError(
            f"there is no model to save: {error}. Nothing else predicts as well; leave out --automatic to train a "
            "model of your choice"
        ) from error
    return Chosen(best, tried.best_name_, tried.leaderboard_, tried.summary())
