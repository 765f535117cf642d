"""Options that several commands share, and parsers of their values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

# Larger values are typing errors (tests/cli/test_arguments.py).
MAX_EPOCHS, MAX_CHUNK_ROWS = 1_000_000, 2**52
# The largest seed of numpy.random.RandomState, which scikit-learn uses (tests/cli/test_arguments.py).
MAX_SEED = 2**32 - 1

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
"""Defaults of the feature options; the parser yields None for options that are not passed."""


def add_feature_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the embedding and the random features."""
    group = command.add_argument_group("features")
    group.add_argument(
        "--divergence", choices=DIVERGENCES,
        help="divergence whose root is the distance between two rows (default: hellinger, the cheapest)",
    )  # fmt: skip
    group.add_argument(
        "--n-basis", type=whole_number(2, word="auto"), metavar="N",
        help="number of basis functions per dimension (default: auto, chosen by the bandwidth)",
    )  # fmt: skip
    group.add_argument(
        "--bandwidth", type=number_list(1e-30, 1e30, word="auto"), metavar="H",
        help="bandwidth of the densities, as a fraction of the width of the domain: one number, or one per dimension "
        "separated by commas (default: auto)",
    )  # fmt: skip
    group.add_argument(
        "--domain", type=_domain, metavar="LOW,HIGH",
        help="domain of the points: two numbers (--domain=-1,1), 'unit', 'data' for the range of the data, or 'robust' "
        "for a range without outliers, which are clipped to it (default: robust)",
    )  # fmt: skip
    group.add_argument(
        "--structure", choices=("auto", "joint", "marginal", "pairs"),
        help="densities to embed: joint, marginals, or marginals and the pairs whose dependence differs between "
        "sets (default: joint for up to three dimensions, otherwise pairs if any)",
    )  # fmt: skip
    group.add_argument(
        "--features", type=_feature_count, metavar="D",
        help="number of random features: an even number, or 0 for none (default: 2000)",
    )  # fmt: skip
    group.add_argument(
        "--sigma", type=number_list(1e-30, 1e30, word="median", single=True), metavar="S",
        help="bandwidth of the Gaussian kernel between rows (default: median, the median distance of rows)",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=whole_number(0), default=0, help="seed of all random numbers (default: 0)"
    )  # fmt: skip


def add_learning_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the learner."""
    group = command.add_argument_group("learning")
    group.add_argument(
        "--learner", choices=("ridge", "sgd"),
        help="ridge: one pass, up to about 5000 features. sgd: several passes, any number (default: ridge)",
    )  # fmt: skip
    group.add_argument(
        "--task", choices=("classify", "regress"),
        help="default: classify if the target has integers, text or booleans, regress if it has floats",
    )  # fmt: skip
    group.add_argument(
        "--alpha", "--alphas", type=number_list(0, 1e300), metavar="A,A", dest="alphas",
        help="penalty; from several, ridge selects the best by cross-validation (default: that of the learner)",
    )  # fmt: skip
    passes = "number of passes over the data, for sgd (default: until convergence)"
    group.add_argument("--epochs", type=whole_number(1, MAX_EPOCHS), metavar="N", help=passes)
    group.add_argument(
        "--train-fraction", type=_fraction, default=1.0, metavar="F",
        help="train on this fraction of the sets and score on the others (default: 1, no score)",
    )  # fmt: skip


def add_automatic_options(command: argparse.ArgumentParser) -> None:
    """Add the options of automatic models, which replace all options of features and learner."""
    group = command.add_argument_group("automatic model")
    group.add_argument(
        "--automatic", action="store_true",
        help="select representation, kernel and penalty by cross-validation, print the leaderboard with baselines, and "
        "save the best candidate; accepts no feature options, and of the learning options --task and "
        "--train-fraction only",
    )  # fmt: skip
    group.add_argument(
        "--budget", type=number_list(1e-3, 1e9, single=True), metavar="SECONDS",
        help="approximate time limit of --automatic (default: none)",
    )  # fmt: skip


def add_overwrite_option(command: Any, output: str) -> None:
    """Add ``--overwrite``; without it an existing output raises an error before any work."""
    command.add_argument("--overwrite", action="store_true", help=f"replace an existing {output}")


def add_running_options(command: argparse.ArgumentParser) -> None:
    """Add the options of clusters, the performance report and progress."""
    group = command.add_argument_group("running")
    add_cluster_options(group)
    report = "write an HTML page about the run of the cluster: stages by worker and time, profiles, logs"
    group.add_argument("--performance-report", metavar="FILE", help=report)
    group.add_argument(
        "--progress", action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default: if standard error is a terminal)",
    )  # fmt: skip


def add_cluster_options(group: Any) -> None:
    """Add the options of a cluster."""
    cluster = group.add_mutually_exclusive_group()
    cluster.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="run on the cluster of a Dask scheduler, such as tcp://10.0.0.5:8786 (default: this machine)",
    )  # fmt: skip
    cluster.add_argument(
        "--scheduler-file", metavar="FILE",
        help="run on the cluster of the scheduler that was started with this --scheduler-file",
    )  # fmt: skip
    group.add_argument("--tls-ca-file", metavar="FILE", help="certificate authority of a tls:// cluster")
    group.add_argument("--tls-cert", metavar="FILE", help="client certificate for a tls:// cluster")
    group.add_argument("--tls-key", metavar="FILE", help="private key of the client certificate")


def nonempty_text(text: str) -> str:
    """Return the text; an empty one is an error, which often comes from an unset shell variable."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty. Check that its shell variable is set")
    return text


def _value_error(expected: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"must be {expected}; got {text!r:.80}")


def whole_number(
    minimum: int, maximum: int | None = None, *, word: str | None = None
) -> Callable[[str], Any]:
    """Return a parser of a whole number within limits, or of one word."""
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
    """Return a parser of a number within limits, of several separated by commas (a tuple), or of one word."""
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
    """Parse a power of two."""
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
