"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

MAX_EPOCHS = 1_000_000
MAX_SEED = 2**32 - 1  # of scikit-learn's estimators, the learners among them
MAX_CHUNK_ROWS = 2**52

DIVERGENCES = ("hellinger", "jensen-shannon", "total-variation", "chi2")


DEFAULT_FEATURE_OPTIONS: dict[str, Any] = {
    "divergence": "hellinger",
    "n_basis": "auto",
    "bandwidth": "auto",
    "domain": "robust",
    "structure": "auto",
    "features": 2000,
    "sigma": "median",
}
"""Options of features, and what they are where they are not given: they come as None then."""


def add_feature_options(command: argparse.ArgumentParser) -> None:
    """How sets become rows of features."""
    group = command.add_argument_group("features")
    group.add_argument(
        "--divergence", choices=DIVERGENCES,
        help="what the distance between two sets' rows is (default: hellinger, the cheapest)",
    )  # fmt: skip
    group.add_argument(
        "--n-basis", type=whole_number(2, word="auto"), metavar="N",
        help="basis functions per dimension (default: auto, as many as the bandwidth needs)",
    )  # fmt: skip
    group.add_argument(
        "--bandwidth", type=number_list(1e-30, 1e30, word="auto"), metavar="H",
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
        "--features", type=_feature_count, metavar="D",
        help="random features, an even number, or 0 for none (default: 2000)",
    )  # fmt: skip
    group.add_argument(
        "--sigma", type=number_list(1e-30, 1e30, word="median", single=True), metavar="S",
        help="width of the kernel between rows (default: median, their typical distance)",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=whole_number(0), default=0, help="fixes everything that is random (default: 0)"
    )  # fmt: skip


def add_learning_options(command: argparse.ArgumentParser) -> None:
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
        "--alpha", "--alphas", type=number_list(0, 1e300), metavar="A,A", dest="alphas",
        help="strength of the penalty; ridge chooses among several (default: the learner's own)",
    )  # fmt: skip
    passes = "passes over the data, for sgd (default: until it has arrived)"
    group.add_argument("--epochs", type=whole_number(1, MAX_EPOCHS), metavar="N", help=passes)
    group.add_argument(
        "--train-fraction", type=_fraction, default=1.0, metavar="F",
        help="train on this share of the sets and report the score on the rest (default: 1, no score)",
    )  # fmt: skip


def add_automatic_options(command: argparse.ArgumentParser) -> None:
    """A model without choices, in the place of all options of features and learning."""
    group = command.add_argument_group("no choice to make")
    group.add_argument(
        "--automatic", action="store_true",
        help="choose representation, kernel and penalty by cross-validation, print what was tried beside its "
        "baselines, and save the best candidate; takes no options of features, and of learning only --task and "
        "--train-fraction",
    )  # fmt: skip
    group.add_argument(
        "--budget", type=number_list(1e-3, 1e9, single=True), metavar="SECONDS",
        help="for --automatic: about how long it may take (default: as long as it needs)",
    )  # fmt: skip


def add_overwrite_option(command: Any, what: str) -> None:
    """Consent to replace what is there; without it a command stops before it begins."""
    command.add_argument("--overwrite", action="store_true", help=f"replace {what} that is there")


def add_running_options(command: argparse.ArgumentParser) -> None:
    """Where a command runs, and whether it shows how far it is."""
    group = command.add_argument_group("running")
    add_cluster_options(group)
    report = "what the cluster did, as an HTML page: which worker ran which stage when, profiles, logs"
    group.add_argument("--performance-report", metavar="FILE", help=report)
    group.add_argument(
        "--progress", action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default: if it is a terminal)",
    )  # fmt: skip


def add_cluster_options(group: Any) -> None:
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


def _value_error(expected: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"must be {expected}; got {text!r:.80}")


def whole_number(
    minimum: int, maximum: int | None = None, *, word: str | None = None
) -> Callable[[str], Any]:
    """A reader of a whole number within limits, or of one word."""
    limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum:,}"
    expected = f"a whole number {limits}" + (f", or {word}" if word else "")

    def read(text: str) -> Any:
        if text == word:
            return text
        value = _try_number(int, text)
        if value is None or value < minimum or (maximum is not None and value > maximum):
            raise _value_error(expected, text)
        return value

    return read


def number_list(
    minimum: float, maximum: float, *, word: str | None = None, single: bool = False
) -> Callable[[str], Any]:
    """A reader of a number within limits, of several separated by commas (as a tuple), or of one word."""
    count = "a number" if single else "a number, or several separated by commas,"
    expected = f"{count} from {minimum:g} to {maximum:g}" + (f", or {word}" if word else "")

    def read(text: str) -> Any:
        if text == word:
            return text
        values = tuple(_try_number(float, part) for part in text.split(","))
        if (single and len(values) > 1) or not all(v is not None and minimum <= v <= maximum for v in values):
            raise _value_error(expected, text)
        return values[0] if len(values) == 1 else values

    return read


def _try_number(kind: type[int] | type[float], text: str) -> Any:
    """The number that a text holds, or None."""
    try:
        return kind(text)
    except ValueError:
        return None


def _feature_count(text: str) -> int:
    value: int | None = _try_number(int, text)
    if value is None or value < 0 or value % 2:
        raise _value_error("an even whole number, or 0 for none", text)
    return value


def _fraction(text: str) -> float:
    value: float | None = _try_number(float, text)
    if value is None or not 0 < value <= 1:
        raise _value_error("a number above 0 and at most 1", text)
    return value


def chunk_rows(text: str) -> int:
    """Read a power of two."""
    value: int | None = _try_number(int, text)
    if value is None or not 1 <= value < MAX_CHUNK_ROWS or value & (value - 1):
        raise _value_error("a power of two", text)
    return value


def _domain(text: str) -> Any:
    if text in ("robust", "data", "unit"):
        return text
    values = [_try_number(float, part) for part in text.split(",")]
    if len(values) != 2 or None in values or not -math.inf < values[0] < values[1] < math.inf:
        raise _value_error("LOW,HIGH with LOW < HIGH, unit, data or robust", text)
    return tuple(values)
