"""What a user would take instead today: networks of sets and gradient boosting, beside ours with no argument.

    python benchmarks/networks.py [task ...] [--quick] [--minutes 1 4] [--sets 16000] [--only METHOD ...]
            [--threads 2 | --cpu] [--seed 0] [--output results.json] [--read earlier.json ...]
            [--figure docs/networks.png]

Tasks, all by default: mixtures (P1's section 4.2: 16,000 sets of 200 points, how many components?), images (10,000 cats
and dogs of CIFAR-10, 1,024 triples each), mnist_sift (descriptors of digits), pentip (pen trajectories as sets). The
points of pentip are shuffled, so that nobody sees their order, and rows of zeros are left out: the file fills every
series of a class up to the same length, which alone tells the class of 78 % of the test sets (22 % without the zeros).

Methods: DeepSets with mean and with max pooling, and attention pooling (PyTorch, `peers/`), each at every number of
minutes, half of them to choose by a validation part among four settings and the symmetries of the axes, half to train
the best anew; gradient boosting on moments, quantiles and histograms, the best of four settings; `SetClassifier` or
`SetRegressor` with no argument; the five lines with their defaults. All see the same training sets and nothing else,
and two threads (`--threads`). Loading and compiling are not timed. Networks learn as far as they come within the
minutes, so that their scores, unlike ours, depend on the machine and, without `--cpu`, on what else it does.

"behind" is how much worse than ours with no argument, with its standard error over test sets, paired. Networks need
`pip install 'dkdist[networks]'`, three of the tasks the files of DKDIST_DATA.
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

os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # threads that wait leave the cores to others; read once, below

import numpy as np
from common import options, start_report, write
from defaults import Task, images, mixtures, of_distances
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import boosting
from stopwatch import count_processor_time, seconds

WARM = 60  # sets of the fit before the clock runs
OURS = "no argument"
POOLINGS = {
    "DeepSets, mean pooling": "mean", "DeepSets, max pooling": "max", "attention pooling": "attention"
}  # fmt: skip
COLUMNS = "score", "error", "behind", "behind_error", "choosing", "fitting", "seconds", "predicting"


def is_classes(y: np.ndarray) -> bool:
    return bool(y.dtype.kind != "f")


class NoArgument:
    """`SetClassifier` or `SetRegressor`; it chooses and fits in one."""

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
    """The five lines of docs/your_data.md, with nothing set."""

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
    """(name, minutes, how a model is made), ours first, since others are compared with it."""
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


def warm(method: Method, task: Task) -> None:
    """A short fit that is not timed: what must be loaded or compiled is there afterwards."""
    _, minutes, make = method
    subset = task.train[:WARM]
    y = (np.arange(WARM) % 2).astype(task.y.dtype)
    model = make()
    if minutes is not None:
        model.seconds = 0.5
    model.fit(subset, y).predict(subset)


@dataclass(frozen=True)
class Score:
    """Accuracy or root mean squared error, and what every test set adds to its deviation."""

    value: float
    shares: np.ndarray
    larger_is_better: bool

    @classmethod
    def of(cls, y: np.ndarray, predicted: np.ndarray) -> Score:
        if is_classes(y):
            right = (y == predicted).astype(float)
            return cls(float(right.mean()), right, True)
        squares = (y - predicted) ** 2
        root = float(np.sqrt(squares.mean()))
        return cls(root, squares / (2 * root), False)  # sqrt(m + e) = sqrt(m) + e / (2 sqrt(m)) + ...

    @property
    def error(self) -> float:
        return standard_error(self.shares)

    def deficit(self, other: Score) -> tuple[float, float]:
        """How much worse than the other, and the standard error of that."""
        sign = 1 if self.larger_is_better else -1
        return sign * (other.value - self.value) + 0.0, standard_error(other.shares - self.shares)


def standard_error(shares: np.ndarray) -> float:
    return float(shares.std(ddof=1) / np.sqrt(len(shares)))


def measured(method: Method, task: Task) -> tuple[dict[str, Any], Score]:
    """A fit and a prediction, timed."""
    warm(method, task)
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
    """Trajectories without their padding, points in random order."""
    moving = sets.points.any(axis=1)
    index = np.repeat(np.arange(len(sets)), sets.sizes)[moving]
    order = np.lexsort((np.random.default_rng(0).random(len(index)), index))
    sizes = np.bincount(index, minlength=len(sets))
    return dk.SampleSets(sets.points[moving][order], np.append(0, np.cumsum(sizes)))


def pentip(quick: bool) -> Task:
    """No tuned figure belongs to it: those of the documents are of series, in order and padded."""
    task = of_distances("pentip", quick)
    return Task(unordered(task.train), task.y, unordered(task.test), task.y_test, np.nan, np.nan)


TASKS: dict[str, tuple[str, Callable[[bool], Task]]] = {
    "mixtures": ("components of a mixture", mixtures),
    "images": ("cats and dogs, triples", images),
    "mnist_sift": ("digits, descriptors", lambda quick: of_distances("mnist_sift", quick)),
    "pentip": ("pen trajectories as sets", pentip),
}


def run(name: str, task: Task, names: Sequence[Method]) -> Iterator[dict[str, Any]]:
    """The rows of a task, as they come."""
    reference: Score | None = None
    for method in names:
        row, score = measured(method, task)
        if method[0] == OURS:
            reference = score
        row["behind"], row["behind_error"] = (None, None) if reference is None else score.deficit(reference)
        measure = "accuracy" if score.larger_is_better else "RMSE"
        yield {"task": name, "measure": measure, "sets": len(task.y), "tests": len(task.y_test)} | row


def at_most(task: Task, n: int | None) -> Task:
    """The first ``n`` sets to train on."""
    return Task(task.train[:n], task.y[:n], task.test, task.y_test, task.tuned, task.tuned_error)


def title(row: dict[str, Any]) -> str:
    minutes = "" if row["minutes"] is None else f" ({row['minutes']:.2g} min)"
    return row["method"] + minutes


def show(rows: Sequence[dict[str, Any]]) -> None:
    """A table for each task."""
    for task in dict.fromkeys(row["task"] for row in rows):
        task_rows = [row for row in rows if row["task"] == task]
        first = task_rows[0]
        print(f"\n{task}: {first['measure']}, {first['sets']:,} sets to train on, {first['tests']:,} to test")
        print(f"  {'':<34}{'score':>8} +- {'':<6}{'behind':>7} +- {'':<6}" + "".join(
            f"{c:>12}" for c in ("choosing s", "fit s", "in all s", "predict s")))  # fmt: skip
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


TOLD = {
    OURS: "SetClassifier / SetRegressor, no argument", "five lines": "our five lines, defaults",
    "boosting": "gradient boosting of summaries",
}  # fmt: skip


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Score by seconds of training, a panel for each task.

    Marks are at the seconds in all, dotted lines begin at those of the final fit alone, bars are standard errors.
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
    """One task; better is up."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for name, (mark, colour) in MARKS.items():
        task_rows = sorted((row for row in rows if row["method"] == name), key=lambda row: row["seconds"])
        if not task_rows:
            continue
        x, y = [row["seconds"] for row in task_rows], [row["score"] for row in task_rows]
        size = 13 if mark == "*" else 7
        axes.errorbar(x, y, [row["error"] for row in task_rows], fmt=f"{mark}-", color=colour, ms=size, capsize=2,
                      lw=1.4, elinewidth=1, label=TOLD.get(name, name), zorder=3)  # fmt: skip
        for row in task_rows:
            axes.plot([row["fitting"], row["seconds"]], [row["score"]] * 2, ":", color=colour, lw=1, zorder=2)
    axes.set(
        xscale="log",
        xlabel="seconds to choose and train (dotted: to train)",
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
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all by default, none with --read")
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 4], help="of a network, all in all")
    parser.add_argument("--sets", type=int, help="the most sets to train on")
    parser.add_argument(
        "--only", nargs="+", choices=all_methods, default=all_methods, help="these methods alone"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu", action="store_true", help="one thread, and its seconds of work, on a busy machine"
    )
    parser.add_argument("--seed", type=int, default=0, help="of networks and boosting")
    parser.add_argument("--read", type=Path, nargs="+", default=[], help="earlier results, shown with these")
    parser.add_argument("--figure", type=Path, help="draw score by seconds into this file")
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
            task = at_most(TASKS[name][1](args.quick), args.sets)
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
