"""Accuracy and time of the automatic models, compared with neural networks of sets and gradient boosting.

    python benchmarks/networks.py [task ...] [--quick] [--minutes 1 4] [--sets 16000] [--only METHOD ...]
            [--threads 2 | --cpu] [--seed 0] [--output results.json] [--read earlier.json ...]
            [--figure docs/networks.png]

Tasks, all by default: mixtures (section 4.2 of P1: the number of components of 16,000 sets of 200 points), images
(10,000 cats and dogs of CIFAR-10, 1,024 triples each), mnist_sift (descriptors of digits), pentip (pen trajectories as
sets). The points of pentip are shuffled, and zero padding is removed: the file pads all series of a class to the same
length, which alone determines the class of 78 % of the test sets (22 % without the padding).

Methods: DeepSets with mean and max pooling, and attention pooling (PyTorch, `peers/`), each for all values of
--minutes: one half to select among four settings and the symmetries of the axes on a validation set, the other half to
train the best setting again; gradient boosting on moments, quantiles and histograms, the best of four settings;
`SetClassifier` or `SetRegressor` without arguments ("no argument"); the five-line pipeline with default parameters. All
methods get the same training sets and two threads (`--threads`). Loading and compilation are not timed. Scores of
networks depend on the speed of the machine and, without `--cpu`, on its other load.

"behind" is the paired difference by which a method is worse than "no argument", with its standard error over test sets.
Times are seconds of one run. Networks need `pip install 'dkdist[networks]'`; three tasks need files of DKDIST_DATA.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# idle threads release their cores; OpenMP reads this when it is loaded, below
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
from common import options, start_report, write
from defaults import Task, images, mixtures, of_distances
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import boosting
from stopwatch import count_processor_time, seconds

N_WARMUP_SETS = 60  # sets of the fit that is not timed
OURS = "no argument"
POOLINGS = {
    "DeepSets, mean pooling": "mean", "DeepSets, max pooling": "max", "attention pooling": "attention"
}  # fmt: skip
COLUMNS = "score", "error", "behind", "behind_error", "choosing", "fitting", "seconds", "predicting"


def is_classes(y: np.ndarray) -> bool:
    return bool(y.dtype.kind != "f")


class NoArgument:
    """`SetClassifier` or `SetRegressor`, which select and fit in one call."""

    choosing_ = None

    def fit(self, sets: Any, y: np.ndarray) -> NoArgument:
        start = seconds()
        model_class = dk.SetClassifier if is_classes(y) else dk.SetRegressor
        self.model_ = model_class(random_state=0).fit(sets, y)
        self.fitting_ = seconds() - start
        self.chosen_ = f"{len(self.model_.machine_.parts)} of {len(self.model_.leaderboard_) - 1} candidates"
        return self

    def predict(self, sets: Any) -> np.ndarray:
        return self.model_.predict(sets)


class FiveLines:
    """The five-line pipeline of docs/your_data.md with default parameters."""

    choosing_, chosen_ = 0.0, "defaults"

    def fit(self, sets: Any, y: np.ndarray) -> FiveLines:
        start = seconds()
        learner = dk.IncrementalSGDClassifier if is_classes(y) else dk.IncrementalSGDRegressor
        self.model_ = make_pipeline(
            dk.DivergenceEmbedding(random_state=0),
            dk.RandomFourierFeatures(5000, random_state=0),
            learner(random_state=0),
        ).fit(sets, y)
        self.fitting_ = seconds() - start
        return self

    def predict(self, sets: Any) -> np.ndarray:
        return self.model_.predict(sets)


Method = tuple[str, float | None, Callable[[], Any]]


def methods(names: Sequence[str], minutes: Sequence[float], threads: int, seed: int) -> Iterator[Method]:
    """Yield (name, minutes, factory of models); the reference method is first."""
    fixed = {OURS: NoArgument, "five lines": FiveLines, "boosting": lambda: boosting.Boosting(seed)}
    for name, make in fixed.items():
        if name in names:
            yield name, None, make
    if not any(name in names for name in POOLINGS):
        return
    training = importlib.import_module("network_training")
    training.torch.set_num_threads(threads)
    for name, pooling in POOLINGS.items():
        for m in minutes if name in names else ():
            yield name, m, lambda p=pooling, m=m: training.NetworkLearner(p, 60 * m, seed)


def warm_up(method: Method, task: Task) -> None:
    """Load and compile everything by a short fit that is not timed."""
    _, minutes, make = method
    subset = task.train[:N_WARMUP_SETS]
    y = (np.arange(N_WARMUP_SETS) % 2).astype(task.y.dtype)
    model = make()
    if minutes is not None:
        model.seconds = 0.5
    model.fit(subset, y).predict(subset)


@dataclass(frozen=True)
class Score:
    """Accuracy or root mean squared error, and the linearised contribution of every test set."""

    value: float
    contributions: np.ndarray
    larger_is_better: bool

    @classmethod
    def of(cls, y: np.ndarray, predicted: np.ndarray) -> Score:
        if is_classes(y):
            is_correct = (y == predicted).astype(float)
            return cls(float(is_correct.mean()), is_correct, True)
        squares = (y - predicted) ** 2
        root = float(np.sqrt(squares.mean()))
        return cls(root, squares / (2 * root), False)  # sqrt(m + e) = sqrt(m) + e / (2 sqrt(m)) + ...

    @property
    def error(self) -> float:
        return standard_error(self.contributions)

    def deficit(self, other: Score) -> tuple[float, float]:
        """Return by how much the score is worse than the other, and the standard error of that."""
        sign = 1 if self.larger_is_better else -1
        return sign * (other.value - self.value) + 0.0, standard_error(
            other.contributions - self.contributions
        )


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def measure(method: Method, task: Task) -> tuple[dict[str, Any], Score]:
    """Time a fit and a prediction."""
    warm_up(method, task)
    name, minutes, make = method
    model = make().fit(task.train, task.y)
    start = seconds()
    predicted = model.predict(task.test)
    predicting = seconds() - start
    score = Score.of(task.y_test, predicted)
    row = {
        "method": name, "minutes": minutes, "score": score.value, "error": score.error, "choosing": model.choosing_,
        "fitting": model.fitting_, "seconds": (model.choosing_ or 0.0) + model.fitting_, "predicting": predicting,
        "chosen": model.chosen_, "tried": getattr(model, "tried_", None),
    }  # fmt: skip
    return row, score


def unordered(sets: dk.SampleSets) -> dk.SampleSets:
    """Return trajectories without padding, points in random order."""
    is_point = sets.points.any(axis=1)
    index = np.repeat(np.arange(len(sets)), sets.sizes)[is_point]
    order = np.lexsort((np.random.default_rng(0).random(len(index)), index))
    sizes = np.bincount(index, minlength=len(sets))
    return dk.SampleSets(sets.points[is_point][order], np.append(0, np.cumsum(sizes)))


def pentip(quick: bool) -> Task:
    """Return the task without a tuned score: published scores are for ordered, padded series."""
    task = of_distances("pentip", quick)
    return Task(unordered(task.train), task.y, unordered(task.test), task.y_test, np.nan, np.nan)


TASKS: dict[str, tuple[str, Callable[[bool], Task]]] = {
    "mixtures": ("components of a mixture", mixtures),
    "images": ("cats and dogs, triples", images),
    "mnist_sift": ("digits, descriptors", lambda quick: of_distances("mnist_sift", quick)),
    "pentip": ("pen trajectories as sets", pentip),
}


def run(name: str, task: Task, names: Sequence[Method]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task."""
    reference: Score | None = None
    for method in names:
        row, score = measure(method, task)
        if method[0] == OURS:
            reference = score
        row["behind"], row["behind_error"] = (None, None) if reference is None else score.deficit(reference)
        metric = "accuracy" if score.larger_is_better else "RMSE"
        yield {"task": name, "measure": metric, "sets": len(task.y), "tests": len(task.y_test)} | row


def truncate(task: Task, n: int | None) -> Task:
    """Return the task with the first ``n`` training sets."""
    return Task(task.train[:n], task.y[:n], task.test, task.y_test, task.tuned, task.tuned_error)


def title(row: dict[str, Any]) -> str:
    minutes = "" if row["minutes"] is None else f" ({row['minutes']:.2g} min)"
    return row["method"] + minutes


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table for each task."""
    for task in dict.fromkeys(row["task"] for row in rows):
        task_rows = [row for row in rows if row["task"] == task]
        first = task_rows[0]
        print(f"\n{task}: {first['measure']}, {first['sets']:,} training sets, {first['tests']:,} test sets")
        print(f"  {'':<34}{'score':>8} +- {'':<6}{'behind':>7} +- {'':<6}" + "".join(
            f"{c:>12}" for c in ("select s", "fit s", "total s", "predict s")))  # fmt: skip
        for row in task_rows:
            print("  " + line(row))


def line(row: dict[str, Any]) -> str:
    deficit = "" if row["behind"] is None else f"{row['behind']:+.4f} +- {row['behind_error']:.4f}"
    times = "".join(f"{'' if row[k] is None else format(row[k], '.2f'):>12}" for k in COLUMNS[4:])
    return f"{title(row):<34}{row['score']:>8.4f} +- {row['error']:.4f} {deficit:>17}{times}  {row['chosen']}"


MARKS = {
    OURS: ("*", "tab:red"), "five lines": ("P", "tab:orange"), "boosting": ("s", "tab:green"),
    "DeepSets, mean pooling": ("o", "tab:blue"), "DeepSets, max pooling": ("^", "tab:cyan"),
    "attention pooling": ("D", "tab:purple"),
}  # fmt: skip


LEGEND_LABELS = {
    OURS: "SetClassifier / SetRegressor, no argument", "five lines": "our five lines, defaults",
    "boosting": "gradient boosting of summaries",
}  # fmt: skip


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Draw score by seconds of training, one panel per task.

    Marks are at the total seconds, dotted lines begin at those of the final fit, bars are standard errors.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    columns = len(tasks) if len(tasks) < 4 else 2
    lines = -(-len(tasks) // columns)
    figure, panels = plt.subplots(
        lines,
        columns,
        figsize=(max(7.5, 4.7 * columns), 3.6 * lines + 0.7),
        layout="constrained",
        squeeze=False,
    )
    for axes, task in zip(panels.flat, tasks, strict=False):
        panel(axes, [row for row in rows if row["task"] == task])
    for axes in panels.flat[len(tasks) :]:
        axes.set_axis_off()
    handles = {h.get_label(): h for axes in panels.flat for h in axes.get_legend_handles_labels()[0]}
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=1 + columns, frameon=False
    )
    figure.savefig(file, dpi=90)
    plt.close(figure)


def panel(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Draw one task; better scores are higher."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for name, (mark, colour) in MARKS.items():
        task_rows = sorted((row for row in rows if row["method"] == name), key=lambda row: row["seconds"])
        if not task_rows:
            continue
        x, y = [row["seconds"] for row in task_rows], [row["score"] for row in task_rows]
        size = 13 if mark == "*" else 7
        axes.errorbar(x, y, [row["error"] for row in task_rows], fmt=f"{mark}-", color=colour, ms=size, capsize=2,
                      lw=1.4, elinewidth=1, label=LEGEND_LABELS.get(name, name), zorder=3)  # fmt: skip
        for row in task_rows:
            axes.plot([row["fitting"], row["seconds"]], [row["score"]] * 2, ":", color=colour, lw=1, zorder=2)
    axes.set(
        xscale="log",
        xlabel="seconds to select and train (dotted: to train)",
        title=TASKS[rows[0]["task"]][0],
    )
    axes.set_ylabel(rows[0]["measure"] + (" (axis upside down)" if rows[0]["measure"] == "RMSE" else ""))
    if rows[0]["measure"] == "RMSE":
        axes.invert_yaxis()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="200 to 600 sets, a second for each network, one thread")
    all_methods = [OURS, "five lines", "boosting", *POOLINGS]
    parser.add_argument(
        "tasks", nargs="*", help=f"any of {', '.join(TASKS)} (default: all, none with --read)"
    )
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 4], help="total minutes of a network")
    parser.add_argument("--sets", type=int, help="maximum number of training sets")
    parser.add_argument(
        "--only", nargs="+", choices=all_methods, default=all_methods, help="run only these methods"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu", action="store_true", help="use one thread and measure its processor time, for a busy machine"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of networks and boosting")
    parser.add_argument(
        "--read", type=Path, nargs="+", default=[], help="files of earlier results to include"
    )
    parser.add_argument("--figure", type=Path, help="draw score by seconds to this file")
    args = parser.parse_args(argv)
    if set(args.only) & set(POOLINGS) and find_spec("torch") is None:
        parser.error(
            "networks need PyTorch: pip install 'dkdist[networks]', or name other methods with --only"
        )
    if unknown := set(args.tasks) - set(TASKS):
        parser.error(f"unknown tasks: {', '.join(sorted(unknown))}")
    earlier = [row for file in args.read for row in json.loads(file.read_text())["rows"]]
    report = start_report() | {"rows": earlier}
    minutes, threads = ([1 / 60], 1) if args.quick else (args.minutes, 1 if args.cpu else args.threads)
    if args.cpu:
        count_processor_time()
    names = list(methods(args.only, minutes, threads, args.seed))
    with threadpool_limits(threads):
        for name in args.tasks or ([] if args.read else TASKS):
            task = truncate(TASKS[name][1](args.quick), args.sets)
            for row in run(name, task, names):
                report["rows"].append(row)
                print(f"{name}: {line(row)}", flush=True)
                write(args.output, report)
    show(report["rows"])
    write(args.output, report)
    if args.figure:
        draw(report["rows"], args.figure)
    return report


if __name__ == "__main__":
    main()
