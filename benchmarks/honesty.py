"""Scores, p-values and uncertainty that automatic models report, compared with results on fresh data.

    python benchmarks/honesty.py [--lines 1 2 3 4 5 6 7] [--seed 0] [--jobs 2] [--records runs.jsonl] [--quick]
            [--fits 200] [--sizes 20 30 60 120 250 600] [--collections fox ...] [--baselines-only]
            [--output results.json]

1. Labels that are independent of the sets (balanced coin flips, and numbers): the leaderboard score, p-values,
   coverage of 90 % sets and intervals, log loss; random distributions of sets in 1 to 5 dimensions.
2. Optimism: leaderboard score minus held-out score on real collections and on the tasks of docs/benchmarks.md.
3. On the same splits: score of the model minus that of the best of ten simple baselines by inner cross-validation.
4. Expected calibration error for 2, 5, 30 and 100 classes, and mean confidence for separated classes.
5. Area under the ROC curve of planted points by `explain` (`explanations.py`).
6. Power and level of `group_test` (`group_test_power.py`).
7. Coverage with 30 groups, and the attainable level with six.

Results are means with standard errors; each is compared with a bound and printed with "ok" or "MISS". Seeds 0 to 99 are
for development; report results of other seeds. ``--records`` appends every run to a file of JSON lines and reuses the
runs in it, which splits and resumes long runs. Methods are described in honesty_collections.py and
honesty_simulations.py. Data: DKDIST_DATA.
"""

from __future__ import annotations

import importlib
from datetime import datetime
from pathlib import Path
from typing import Any

from common import options, start_report, write
from honesty_collections import report_differences, report_optimism
from honesty_runs import COMMIT, Runner
from honesty_simulations import SIZES, report_calibration, report_groups, report_noise
from honesty_verdicts import Verdicts
from real_collections import COLLECTIONS

TITLES = {
    1: "labels that are independent of the sets",
    2: "optimism of the leaderboard",
    3: "comparison with simple baselines",
    4: "calibration with many classes",
    5: "planted points in explanations",
    6: "power and level of group_test",
    7: "few groups",
}
OTHER_SCRIPTS = {5: ("explanations", "run_explanations"), 6: ("group_test_power", "run_group_test")}
N_CALIBRATION_FITS, N_CALIBRATION_FRESH = 5, 5000
QUICK_COLLECTIONS = "newsgroups2", "bike"


def report_line(line: int, arguments: Any, runner: Runner) -> Any:
    """Run and print one line; return verdicts, or lines of another script, whose misses end with MISS or BELOW."""
    quick, seed = arguments.quick, arguments.seed
    n_fits = arguments.fits or (4 if quick else 200)
    names = arguments.collections or (QUICK_COLLECTIONS if quick else COLLECTIONS)
    if line == 1:
        return report_noise(arguments.sizes or (SIZES[:2] if quick else SIZES), n_fits, seed, runner)
    if line == 2:
        return report_optimism(names, seed, quick, runner)
    if line == 3:
        return report_differences(names, seed, quick, runner, arguments.baselines_only)
    if line == 4:
        sizes = (2, 300, (2, 5)) if quick else (N_CALIBRATION_FITS, N_CALIBRATION_FRESH, (2, 5, 30, 100))
        return report_calibration(*sizes, seed, runner)
    if line == 7:
        return report_groups(n_fits, seed, runner)
    module, function = OTHER_SCRIPTS[line]
    try:
        script = importlib.import_module(module)
    except ImportError as error:
        print(f"  skipped: {error}")
        return None
    lines = getattr(script, function)(quick, seed)
    print("\n".join(lines), flush=True)
    return {
        "ok": not any(line.split()[-1] in ("MISS", "BELOW") for line in lines if line.split()),
        "lines": lines,
    }


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("--lines", nargs="+", type=int, choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="worker processes of one thread each")
    parser.add_argument(
        "--records", type=Path, help="append runs to this file of JSON lines, and resume from it"
    )
    parser.add_argument("--fits", type=int, help="fits of each case of lines 1 and 7")
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of sets of line 1")
    parser.add_argument("--collections", nargs="+", choices=COLLECTIONS, help="collections of lines 2 and 3")
    parser.add_argument("--baselines-only", action="store_true", help="line 3 without the model")
    arguments = parser.parse_args(argv)
    report = start_report() | {
        "commit": COMMIT, "date": datetime.now().date().isoformat(), "seed": arguments.seed, "lines": {}
    }  # fmt: skip
    print(f"commit {COMMIT}, {report['date']}, seed {arguments.seed}")
    runner = Runner(arguments.jobs, arguments.records)
    for line in arguments.lines:
        print(f"\nline {line}: {TITLES[line]}", flush=True)
        result = report_line(line, arguments, runner)
        if isinstance(result, Verdicts):
            result = {"ok": result.hold, "checks": result.rows} if result.rows else None
        report["lines"][str(line)] = result
        if result is not None:
            print(f"line {line}: {'ok' if result['ok'] else 'MISS'}", flush=True)
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
