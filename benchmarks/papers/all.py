"""Run the experiments of the three papers, and print their figures with the tables of docs/papers.md.

    python benchmarks/papers/all.py [--quick] [--output results.json]

Runs every script that a row names, each in a new process, and prints all rows with the figures of this run. A script
whose data or packages are missing is listed with its last line of output. --quick (a few minutes) checks that every
script runs; with so few sets, figures are worse than those of docs/papers.md, which are from full runs (several hours).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from study import options, write

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "papers.md"
HEADERS = {  # columns of the tables of methods and of experiments
    "methods": ["in the paper", "public name", "test"],
    "experiments": ["in the paper", "public name", "published", "ours", "same", "script"],
}


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def means(rows: dict[str, Any], names: dict[str, str]) -> str:
    """Return the means of some rows under short names."""
    return ", ".join(f"{short} {rows[name]['mean']:.3f}" for name, short in names.items())


def mixture_figures(report: Any) -> str:
    points, result = next(iter(report["points"].items()))
    table = {name: row[-1] for name, row in result["table"].items()}
    return f"{points} points: {means(table, {'Hellinger': 'Hellinger', 'constant': 'a constant'})}"


def distance_figures(report: Any) -> str:
    tasks = {name: task["rows"] for name, task in report.items() if isinstance(task, dict) and "rows" in task}
    accuracies = [f"{name} {percent(rows['D2KE, best']['accuracy'])}" for name, rows in tasks.items()]
    slope = [f"error R^{report['theory']['slopes']['rms']:.2f}"] if "theory" in report else []
    return ", ".join(accuracies + slope)


def scene_figures(report: Any) -> str:
    return percent(report["rivals"]["Hellinger"]["accuracy"]["bands, random features"]["mean"])


def density_figures(report: Any) -> str:
    errors = [(row["setting"], row["errors"]["regressor"] / row["errors"]["mean"]) for row in report["rows"]]
    return ", ".join(f"{setting} {ratio:.2f} times the error of the mean" for setting, ratio in errors)


def image_figures(report: Any) -> str:
    gradients = report["gradients"]
    rows = {name: row for name, row in gradients[gradients["best"]].items() if name.startswith("D = ")}
    return means(rows, {name: f"error with {name}" for name in rows})


# (additional arguments of a quick run, function that formats the figures of a report) by script
FIGURES: dict[str, tuple[list[str], Callable[[Any], str]]] = {
    "gram_published.py": (
        [],
        lambda r: means(
            r["corr2"],
            {"A, defaults": "A", "z of A, defaults": "z", "held-out halves, defaults": "entropies"},
        ),
    ),
    "mixture.py": ([], mixture_figures),
    "density_regression.py": ([], density_figures),
    "cats_dogs.py": (["gradients"], image_figures),
    "scenes.py": (["--only", "Hellinger"], scene_figures),
    "distances.py": (["theory", "splice", "mnist_sift"], distance_figures),
    "kernel_distance.py": (
        [],
        lambda r: ", ".join(
            f"{method} n^{growth['median']:.1f}" for method, growth in r["growth"].items() if growth["fits"]
        ),
    ),
    "shapes.py": ([], lambda r: f"bull's eye {r['re-ranked']['all']:.1f}"),
}


def table_rows(page: str, kind: str) -> list[list[str]]:
    """Return the cells of the rows of all tables of a kind: "methods" or "experiments"."""
    tables = [block.strip().splitlines() for block in page.split("\n\n") if block.strip().startswith("|")]
    cells = [[[cell.strip() for cell in line.split("|")[1:-1]] for line in table] for table in tables]
    return [row for header, _, *rows in cells if header == HEADERS[kind] for row in rows]


def run_script(script: str, quick: bool) -> tuple[str, Any]:
    """Return the figures of a script as text, and its report; if it fails, the last line of its output and None."""
    arguments, figures = FIGURES[script]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "report.json")
        size = ["--quick", *arguments] if quick else []
        command = [sys.executable, str(HERE / script), *size, "--output", str(output)]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode or not output.exists():
            return (run.stdout.strip().splitlines() or ["no output"])[-1], None
        report = json.loads(output.read_text())
    return figures(report), report


def main(argv: list[str] | None = None) -> dict[str, Any]:
    args = options(__doc__).parse_args(argv)
    page = PAGE.read_text()
    reports: dict[str, Any] = {}
    figures: dict[str, str] = {}
    for script in FIGURES:
        start = time.perf_counter()
        figures[script], reports[script] = run_script(script, args.quick)
        print(f"{script}: {time.perf_counter() - start:.0f} s", flush=True)
    for place, name, test in table_rows(page, "methods"):
        print("\n    ".join([f"{place}: {name}", *[test] * bool(test)]))
    for place, name, published, ours, same, script in table_rows(page, "experiments"):
        known = [f"published: {published}"] * bool(published)
        current = [f"ours: {ours}", f"same experiment: {same}", f"now: {figures[script.strip('`')]}"]
        print("\n    ".join([f"{place}: {name}", script, *known, *current]))
    write(args.output, reports)
    return reports


if __name__ == "__main__":
    main()
