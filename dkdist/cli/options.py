"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

DIVERGENCES = ("hellinger", "jensen-shannon", "total-variation", "chi2")


FEATURES: dict[str, Any] = {
    "divergence": "hellinger",
    "n_basis": "auto",
    "bandwidth": "auto",
    "domain": "robust",
    "structure": "auto",
    "features": 2000,
    "sigma": "median",
}
"""Options of features, and what they are where they are not given: they come as None then."""


def add_embedding(command: argparse.ArgumentParser) -> None:
    """How sets become rows of features."""
    group = command.add_argument_group("features")
    group.add_argument(
        "--divergence", choices=DIVERGENCES,
        help="what the distance between two sets' rows is (default: hellinger, the cheapest)",
    )  # fmt: skip
    group.add_argument(
        "--n-basis", type=lambda text: text if text == "auto" else int(text), metavar="N",
        help="basis functions per dimension (default: auto, as many as the bandwidth needs)",
    )  # fmt: skip
    group.add_argument(
        "--bandwidth", type=numbers("auto"), metavar="H",
        help="smoothing of the densities, as a share of the domain's width; one number or one per dimension, "
        "separated by commas (default: auto)",
    )  # fmt: skip
    group.add_argument(
        "--domain", type=_domain, metavar="LOW,HIGH",
        help="the box the points lie in: two numbers (--domain=-1,1), 'unit', 'data' for the bounds of what is "
        "seen, or 'robust' for where its body lies, points outside counting at the wall (default: robust)",
    )  # fmt: skip
    group.add_argument(
        "--structure", choices=("auto", "joint", "marginal", "pairs"),
        help="density of all dimensions together, of each alone, or of each and of the pairs whose dependence differs "
        "between sets (default: joint up to three dimensions, from there on pairs, where there are any)",
    )  # fmt: skip
    group.add_argument(
        "--features", type=int, metavar="D",
        help="random features, an even number, or 0 for none (default: 2000)",
    )  # fmt: skip
    group.add_argument(
        "--sigma", type=numbers("median"), metavar="S",
        help="width of the kernel between rows (default: median, their typical distance)",
    )  # fmt: skip
    group.add_argument("--seed", type=int, default=0, help="fixes everything that is random (default: 0)")


def add_learning(command: argparse.ArgumentParser) -> None:
    """What is learned from the features."""
    group = command.add_argument_group("learning")
    group.add_argument(
        "--learner", choices=("ridge", "sgd"),
        help="ridge: one pass, up to about 5000 features. sgd: several passes, any number (default: ridge)",
    )  # fmt: skip
    group.add_argument(
        "--task", choices=("classify", "regress"),
        help="default: classify if the target holds integers, text or booleans, regress if it holds floats",
    )  # fmt: skip
    group.add_argument(
        "--alpha", "--alphas", type=numbers(), metavar="A,A", dest="alphas",
        help="strength of the penalty; ridge chooses among several (default: the learner's own)",
    )  # fmt: skip
    passes = "passes over the data, for sgd (default: until it has arrived)"
    group.add_argument("--epochs", type=int, metavar="N", help=passes)
    group.add_argument(
        "--train-fraction", type=float, default=1.0, metavar="F",
        help="train on this share of the sets and report the score on the rest (default: 1, no score)",
    )  # fmt: skip


def add_automatic(command: argparse.ArgumentParser) -> None:
    """A model without choices, in the place of all options of features and learning."""
    group = command.add_argument_group("no choice to make")
    group.add_argument(
        "--automatic", action="store_true",
        help="choose representation, kernel and penalty by cross-validation, print what was tried beside its "
        "baselines, and save the best candidate; takes no options of features, and of learning only --task and "
        "--train-fraction",
    )  # fmt: skip
    group.add_argument(
        "--budget", type=float, metavar="SECONDS",
        help="for --automatic: about how long it may take (default: as long as it needs)",
    )  # fmt: skip


def add_overwrite(command: Any, what: str) -> None:
    """Consent to replace what is there; without it a command stops before it begins."""
    command.add_argument("--overwrite", action="store_true", help=f"replace {what} that is there")


def add_running(command: argparse.ArgumentParser) -> None:
    """Where a command runs, and whether it shows how far it is."""
    group = command.add_argument_group("running")
    add_cluster(group)
    report = "what the cluster did, as an HTML page: which worker ran which stage when, profiles, logs"
    group.add_argument("--performance-report", metavar="FILE", help=report)
    group.add_argument(
        "--progress", action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default: if it is a terminal)",
    )  # fmt: skip


def add_cluster(group: Any) -> None:
    """Where a command runs."""
    cluster = group.add_mutually_exclusive_group()
    cluster.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="run on the cluster of this Dask scheduler, such as tcp://10.0.0.5:8786 (default: this machine)",
    )  # fmt: skip
    cluster.add_argument(
        "--scheduler-file", metavar="FILE",
        help="the same, for the scheduler that was started with this --scheduler-file",
    )  # fmt: skip
    group.add_argument(
        "--tls-ca-file", metavar="FILE", help="who signed the certificates of a tls:// cluster"
    )
    group.add_argument("--tls-cert", metavar="FILE", help="your certificate for it")
    group.add_argument("--tls-key", metavar="FILE", help="the private key of that certificate")


def nonempty_text(text: str) -> str:
    """Return the text; an error if it is empty, as where a shell variable is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty. Check that its shell variable is set")
    return text


def numbers(*words: str) -> Callable[[str], Any]:
    """A reader of one of the words, a number, or several numbers separated by commas (as a tuple)."""

    def read(text: str) -> Any:
        if text in words:
            return text
        values = tuple(float(part) for part in text.split(","))
        return values[0] if len(values) == 1 else values

    read.__name__ = " or ".join(("number", *words))  # how argparse names what was expected
    return read


def _domain(text: str) -> Any:
    if text in ("robust", "data", "unit"):
        return text
    low, high = (float(part) for part in text.split(","))
    return low, high


_domain.__name__ = "LOW,HIGH, 'unit', 'data' or 'robust'"
