"""Memory estimated by `dkdist plan`, compared with the peak memory of `dkdist fit`.

    python benchmarks/memory.py                      # eight shapes; checks peak / 1.1 <= plan <= 1.5 peak
    python benchmarks/memory.py --cgroup             # also in memory cgroups of 1.2 and 0.5 times the plan
    python benchmarks/memory.py --shapes 2 5         # some shapes, by number

Each command runs once, in a separate process. Its peak is VmHWM of /proc/self/status: resident memory including shared
libraries. A cgroup is created below that of this process; if this is not allowed, the runs are skipped and the reason
is printed. In a cgroup of 0.5 times the plan, a fit must end with exit status 2 before training.

The exit status is 1 if a check fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import options, start_report, write

import dkdist as dk
from dkdist._utils.memory_budget import PROC_DIR, cgroup_folders

RUN = """
import sys
from dkdist.cli import main
code = main(sys.argv[2:])
with open("/proc/self/status") as status, open(sys.argv[1], "w") as peak:
    peak.write(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
sys.exit(code)
"""
MB = 1e6
MAX_PEAK_RATIO, MAX_PLAN_RATIO = 1.1, 1.5  # peak / plan and plan / peak
CGROUP_RATIO = 1.2  # a fit finishes in a cgroup of this size, relative to the plan
TIMEOUT_SECONDS = 1800


class Shape(NamedTuple):
    """Size of a store of sets, and the learner that is fitted to it."""

    n_sets: int
    n_points: int
    n_dims: int
    learner: str

    def __str__(self) -> str:
        return f"{self.n_sets:,} x {self.n_points:,}, d = {self.n_dims}, {self.learner}"

    @property
    def task(self) -> str:
        return "classify" if self.n_sets > 1 else "regress"


SHAPES = [
    Shape(300, 200, 60, "sgd"),
    Shape(40, 100_000, 2, "sgd"),
    Shape(40, 100_000, 2, "ridge"),
    Shape(1, 3_000_000, 2, "sgd"),
    Shape(4_000, 200, 2, "sgd"),
    Shape(4_000, 200, 2, "ridge"),
    Shape(60_000, 3, 2, "sgd"),
    Shape(60_000, 3, 2, "ridge"),
]
QUICK = [Shape(60, 20, 2, "ridge")]


class CommandResult(NamedTuple):
    """Exit status, peak in bytes (0 if killed), standard output and standard error of a command."""

    status: int
    peak: int
    output: str
    errors: str


def write_store(path: Path, shape: Shape) -> None:
    """Write two classes of Gaussian sets that differ by 0.3 standard deviations."""
    rng = np.random.default_rng(0)
    with dk.SetWriter(path, n_dims=shape.n_dims) as writer:
        step = max(1, 2**20 // shape.n_points)
        for first in range(0, shape.n_sets, step):
            classes = np.arange(first, min(first + step, shape.n_sets)) % 2
            sets = [
                rng.normal(0.3 * c, 1, (shape.n_points, shape.n_dims)).astype(np.float32) for c in classes
            ]
            writer.append(sets, targets={"y": classes if shape.n_sets > 1 else classes.astype(np.float64)})


def run(arguments: list[str], folder: Path, group: Path | None = None) -> CommandResult:
    """Run a command of dkdist, optionally in a cgroup."""
    peak = folder / "peak"
    peak.unlink(missing_ok=True)

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    process = subprocess.run(
        [sys.executable, "-c", RUN, str(peak), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        preexec_fn=enter,
    )
    n_bytes = int(peak.read_text()) * 1024 if peak.exists() else 0
    return CommandResult(process.returncode, n_bytes, process.stdout, process.stderr)


@contextmanager
def memory_group(n_bytes: int) -> Iterator[Path]:
    """Create a memory cgroup of this size below that of this process; OSError if this is not possible."""
    name, limits = f"dkdist-memory-{os.getpid()}", {1: "memory.limit_in_bytes", 2: "memory.max"}
    for folder, version in cgroup_folders(PROC_DIR):
        if (folder / limits[version]).exists() or (folder / "cgroup.subtree_control").exists():
            group = folder / name
            break
    else:
        raise OSError("this process is in no memory cgroup")
    group.mkdir()
    try:
        (group / limits[version]).write_text(str(n_bytes))
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def measure(shape: Shape, folder: Path, cgroup: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the results of a shape, and the failed checks."""
    store, model = folder / "sets.zarr", folder / "model.npz"
    write_store(store, shape)
    common = [str(store), "--target", "y", "--task", shape.task, "--learner", shape.learner]
    common += ["--train-fraction", "1"]
    common += ["--sigma", "1"] if shape.n_sets == 1 else []  # one row has no median distance
    fit = ["fit", *common, "--model", str(model), "--overwrite"]
    planned = run(["plan", *common, "--json"], folder)
    fitted = run(fit, folder)
    if planned.status or fitted.status:
        raise RuntimeError(planned.errors + fitted.errors)
    document = json.loads(planned.output)
    plan, failures = document["peak_bytes"], []
    if not fitted.peak / MAX_PEAK_RATIO <= plan <= MAX_PLAN_RATIO * fitted.peak:
        failures.append(f"the plan is {plan / fitted.peak:.2f} of the peak")
    result = {
        "base": document["base_bytes"],
        "plan": plan,
        "peak": fitted.peak,
        "planning_peak": planned.peak,
        "cgroup": "not requested",
    }
    if cgroup:
        try:
            result["cgroup"] = text = _run_in_cgroups(fit, folder, plan)
            failures += [text] if text != "finishes, half is refused" else []
        except OSError as error:
            result["cgroup"] = f"skipped: memory cgroups cannot be created here ({error})"
    return result, failures


def _run_in_cgroups(fit: list[str], folder: Path, plan: int) -> str:
    with memory_group(int(CGROUP_RATIO * plan)) as group:
        large = run(fit, folder, group)
    with memory_group(plan // 2) as group:
        small = run(fit, folder, group)
    finishes = "finishes" if large.status == 0 else f"ends with status {large.status} {large.errors[-200:]}"
    refused = small.status == 2 and "trained on" not in small.output
    return f"{finishes}, half is {'refused' if refused else f'not refused: {small.status} {small.errors[-200:]}'}"


def main() -> int:
    parser = options(__doc__, quick="one small shape")
    parser.add_argument("--cgroup", action="store_true", help="also run each shape in memory cgroups")
    parser.add_argument("--shapes", type=int, nargs="+", help="numbers of shapes, from 0")
    args = parser.parse_args()
    report, failures = start_report(), []
    shapes = QUICK if args.quick else SHAPES
    for shape in shapes if args.shapes is None else [shapes[i] for i in args.shapes]:
        with tempfile.TemporaryDirectory() as folder:
            result, shape_failures = measure(shape, Path(folder), args.cgroup)
        report[str(shape)] = result
        failures += shape_failures
        numbers = ", ".join(f"{name} {result[name] / MB:,.0f} MB" for name in ("base", "plan", "peak"))
        print(
            f"{shape!s:<28} {numbers}, plan / peak {result['plan'] / result['peak']:.2f}; "
            f"cgroup: {result['cgroup']}{''.join(f'; WRONG: {text}' for text in shape_failures)}",
            flush=True,
        )
    write(args.output, report)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
