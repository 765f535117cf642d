"""Simulated studies with known truth, next to methods in use today.

    python benchmarks/studies.py [adjust] [--seed 0] [--jobs 2] [--quick] [--output results.json]

adjust    accuracy with batches that explain half of the variance, with and without adjustment; a batch that equals the
          disease (`studies_adjust.py`)

Seeds 0 to 99 are for development; report results of other seeds.
"""

from __future__ import annotations

from common import options, start_report, write
from studies_adjust import report_adjust

PARTS = {"adjust": report_adjust}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", choices=list(PARTS), default=list(PARTS), help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    report = start_report()
    for name in arguments.parts:
        report[name] = PARTS[name](arguments.seed, arguments.quick, arguments.jobs)
    write(arguments.output, report)


if __name__ == "__main__":
    main()
