"""Simulated throughput of SGD with one replica, SGD with a replica per worker, ridge and maps on 1 to 1,000 workers.

    python benchmarks/simulate.py [measure] [table] [real] [--quick] [--output results.json]

measure   processor milliseconds of a block of 2,048 sets (Jensen-Shannon, D = 5000; ridge on 600 columns; medians), and
          of a task in the client, the scheduler and a worker, on a cluster of this machine
table     thousand sets per second with 1 to 1,000 workers, from the measured costs, an event simulation
          (`simulate_events.py`) and the task graphs of `dkdist._runtime`; and the fraction of the throughput without
          overhead. Assumed: 0.5 ms per message and 1 GB per second, as in a local network
real      the same graphs for 1, 2 and 4 workers on this machine, where messages cost processor time only, compared with
          real fits (minima); workers share the cores if there are fewer cores than workers

Printed costs are marked as measured or assumed. Run on an idle machine; other programs slow down real fits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import psutil
from cluster import cluster, no_op
from common import options, start_report, time_interleaved, write
from simulate_events import Costs, Node, seconds_of
from speed import pipeline, write_store

import dkdist as dk
from dkdist._runtime import futures as stream
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.futures import (
    FIRST_TASK_JOBS,
    MAP_TASKS_PER_THREAD,
    MIN_FOLD_TASKS,
    TARGET_TASK_SECONDS,
    TASKS_PER_SYNC,
)
from dkdist._runtime.map_reduce import MAX_WAITING_BYTES, MAX_WINDOW_BLOCKS, default_window, fold, map_blocks
from dkdist.linear._tuning import MAX_GRAPH_BATCHES, MAX_ROWS_PER_SYNC, MIN_SYNCS_PER_EPOCH

BLOCK, D, COLUMNS = 2048, 5000, 600
BLOCKS_PER_SYNC = MAX_ROWS_PER_SYNC // BLOCK
STATE_BYTES = 2 * 4 * D  # two rows of float32
AVERAGE_BYTES = 2 * 8 * D  # the averaged state, float64
GRAM_BYTES = 8 * COLUMNS**2
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1000)
NETWORK = {"message": 5e-4, "bandwidth": 1e9}

Work = dict[str, float]
"""Seconds per block: ``read`` (and embed), ``lane`` (read, features, SGD steps), ``gram``, ``predicted``."""


def one_lane(work: Work, n: int) -> tuple[list[Node], int]:
    """Return the tasks of SGD with one replica, and their number of blocks.

    Workers read and embed in turn, ahead of the steps; a task has as many blocks as a run processes in
    TARGET_TASK_SECONDS. Steps compute features and update the state, which the client gets every TASKS_PER_SYNC tasks.
    """
    read_seconds, step = work["read"], work["lane"] - work["read"]
    n_waiting = min(MAX_WAITING_BYTES // (4 * COLUMNS * BLOCK), MAX_WINDOW_BLOCKS)
    tasks, window = max(MIN_FOLD_TASKS, n), max(2 * n + 4, n * n_waiting)
    size = _blocks_per_task(max(work["lane"] / n, step), window // tasks)
    width = min(window, tasks * max(FIRST_TASK_JOBS, size)) // size
    n_items, nodes, steps = max(128, 4 * width), list[Node](), list[int]()
    for j in range(n_items):
        after = (steps[j - width],) if j >= width else ()
        nodes.append(Node(after=after, by_client=True))
        item = len(nodes)
        nodes.append(Node(size * read_seconds, after=(item - 1,), on=j % n))
        before: tuple[int, ...] = ()
        if j:
            before = (steps[j - 1],)
            if j % TASKS_PER_SYNC == 0:
                nodes.append(Node(takes=before, by_client=True, n_bytes=STATE_BYTES))
                before = (len(nodes) - 1,)
        nodes.append(Node(size * step, (item,), before, same_worker_as=item, n_bytes=STATE_BYTES))
        steps.append(len(nodes) - 1)
    return nodes, size * n_items


def _blocks_per_task(seconds: float, max_blocks: int) -> int:
    """Return the number of blocks that a run processes in TARGET_TASK_SECONDS."""
    return int(np.clip(TARGET_TASK_SECONDS / max(seconds, 1e-9), 1, max(1, max_blocks)))


def replicas(work: Work, n: int, blocks_per_epoch: int | None = None) -> tuple[list[Node], int]:
    """Return the tasks of a graph of rounds of n replicas, and their number of blocks.

    The client submits the graph; the replicas of a round start from the state that the last one ends with.
    ``blocks_per_epoch`` defaults to an epoch of millions of sets.
    """
    length = BLOCKS_PER_SYNC
    if blocks_per_epoch is not None:
        length = max(1, min(length, (blocks_per_epoch // n - 1) // (MIN_SYNCS_PER_EPOCH - 1)))
    n_rounds = max(1, MAX_GRAPH_BATCHES // (length * n))
    nodes = [Node(by_client=True)]
    for _ in range(n_rounds * (2 * n - 1)):  # the client handles the tasks of one graph in sequence
        nodes.append(Node(after=(len(nodes) - 1,), by_client=True))
    state = len(nodes) - 1
    for _ in range(n_rounds):
        level = list(range(len(nodes), len(nodes) + n))
        nodes += [
            Node(length * work["lane"], takes=(state,), on=replica, n_bytes=AVERAGE_BYTES)
            for replica in range(n)
        ]
        _add_merges(nodes, level, AVERAGE_BYTES / 4e9, AVERAGE_BYTES)
        state = len(nodes) - 1
    nodes.append(Node(takes=(state,), by_client=True))
    return nodes, n_rounds * length * n


def _add_merges(nodes: list[Node], level: list[int], seconds: float, n_bytes: float) -> None:
    """Append a binary tree of merges of the nodes in ``level``, whose result is sent to the client."""
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = []
        for pair in pairs:
            if len(pair) > 1:
                nodes.append(Node(seconds, takes=(pair[0], pair[1]), same_worker_as=pair[0], n_bytes=n_bytes))
                level.append(len(nodes) - 1)
            else:
                level += pair


def ridge(work: Work, n: int, n_blocks: int = -(-(10**6) // BLOCK)) -> tuple[list[Node], int]:
    """Return the tasks of ridge on a million sets, 256 and their sums in a tree, and their number of blocks.

    At most two tasks per worker and two more wait to be added.
    """
    size = max(-(-n_blocks // 256), min(2, -(-n_blocks // 32)))
    n_jobs, window = -(-n_blocks // size), 2 * n + 2
    nodes, sums, done = [Node(by_client=True)], list[tuple[int, int]](), list[int]()
    for j in range(n_jobs):
        pair = (j - window - 1) // 2
        after = (0, done[pair]) if pair >= 0 else (0,)
        nodes.append(Node(size * work["gram"], after, n_bytes=GRAM_BYTES))
        sums.append((1, len(nodes) - 1))
        while len(sums) > 1 and sums[-1][0] == sums[-2][0]:
            (m, right), (_, left_sum) = sums.pop(), sums.pop()
            nodes.append(
                Node(GRAM_BYTES / 4e9, takes=(left_sum, right), same_worker_as=left_sum, n_bytes=GRAM_BYTES)
            )
            sums.append((2 * m, len(nodes) - 1))
        if j % 2:
            done.append(sums[-1][1])
    _add_merges(nodes, [node for _, node in sums], GRAM_BYTES / 4e9, GRAM_BYTES)
    nodes.append(Node(takes=(len(nodes) - 1,), by_client=True))
    return nodes, size * n_jobs


def predictions(work: Work, n: int) -> tuple[list[Node], int]:
    """Return the tasks of predictions for a million sets or more, TARGET_TASK_SECONDS each, and their blocks."""
    width, n_blocks = MAP_TASKS_PER_THREAD * max(4, n), max(-(-(10**6) // BLOCK), 16 * n)
    size = _blocks_per_task(work["predicted"], n_blocks // width)
    nodes, n_tasks = list[Node](), -(-n_blocks // size)
    for j in range(n_tasks):
        after = (2 * (j - width) + 1,) if j >= width else ()
        nodes += [Node(after=after, by_client=True), Node(size * work["predicted"], after=(2 * j,))]
    return nodes, size * n_tasks


MODES: dict[str, Callable[[Work, int], tuple[list[Node], int]]] = {
    "SGD, one lane": one_lane,
    "SGD, a lane a worker": replicas,
    "ridge, 600 columns": ridge,
    "map": predictions,
}


def rate(
    graph: Callable[[Work, int], tuple[list[Node], int]],
    work: Work,
    costs: Costs,
    n: int,
    processors: int | None = None,
) -> tuple[float, float]:
    """Return sets per second, and the fraction of the throughput of n workers without overhead."""
    nodes, n_blocks = graph(work, n)
    seconds = seconds_of(nodes, costs, n, processors)
    return n_blocks * BLOCK / seconds, sum(node.seconds for node in nodes) / n / seconds


# ------------------------------------------------------------------------------------------------ measured


def measure_work(quick: bool) -> Work:
    """Return processor seconds per block, from differences between fits in this process."""
    n_blocks = 2 if quick else 8
    with tempfile.TemporaryDirectory() as folder:
        y = write_store(f"{folder}/sets.zarr", n_blocks * BLOCK)
        sets = dk.open_sets(f"{folder}/sets.zarr", block_sets=BLOCK)
        embedding, features, _ = (step for _, step in pipeline(1).steps)
        A = embedding.fit(sets).transform(sets)
        Z = features.fit(A).transform(A)

        def sgd(n_lanes: int, epochs: int) -> None:
            model = dk.IncrementalSGDClassifier(
                eta0=4.0, n_epochs=epochs, n_lanes=n_lanes, cache=False, random_state=0
            )
            model.fit(Z, y)

        fitted = dk.IncrementalSGDClassifier(eta0=4.0, n_epochs=1, random_state=0).fit(Z, y)
        n_half = n_blocks // 2 * BLOCK

        def fit_ridge(X: Any) -> None:
            dk.IncrementalRidge(alphas=0.1, random_state=0).fit(X, y[: len(X)])

        calls = [
            lambda: map_blocks(row_blocks(A), no_op),
            lambda: fitted.predict(Z),
            lambda: sgd(2, 1),
            lambda: sgd(2, 3),
            lambda: fit_ridge(A[:n_half]),
            lambda: fit_ridge(A),
        ]
        with da.core.config.set(num_workers=1):
            time_interleaved(calls, 1)
            seconds, _ = time_interleaved(calls, 1 if quick else 5, time.process_time)
    read, predict, one_epoch, three_epochs, ridge_half, ridge_all = np.median(seconds, axis=0) / n_blocks
    rates = {
        "read": read,
        "lane": (three_epochs - one_epoch) / 2,
        "gram": 2 * (ridge_all - ridge_half),
        "predicted": predict,
    }
    return {name: float(value) for name, value in rates.items()}


def measure_tasks(quick: bool, folder: Path) -> Costs:
    """Return the processor seconds of a fold per task in each process."""
    n_blocks = 200 if quick else 2000
    blocks = row_blocks(da.zeros((n_blocks, 2), chunks=(1, 2), dtype="f4"))
    jobs = [Job((i,)) for i in range(n_blocks)]

    def run(selection: list[Job]) -> Any:
        return fold(blocks, selection, lambda block_result, _: 0, lambda state, item: state + 1, 0)

    with (
        cluster(folder, 1) as (client, scheduler),
        patch.object(stream, "TARGET_TASK_SECONDS", 0.0),
    ):  # one block per task
        run(jobs[:100])
        (worker,) = (psutil.Process(pid) for pid in client.run(_pid).values())
        processes = [psutil.Process(), scheduler, worker]
        before = [_used(process) for process in processes]
        run(jobs)
        used = [_used(process) - b for process, b in zip(processes, before, strict=True)]
    n_tasks = 2 * n_blocks  # items and steps
    client_s, scheduler_s, worker_s = (float(seconds / n_tasks) for seconds in used)
    return Costs(client_s, scheduler_s, worker_s, **NETWORK)


def _pid() -> int:
    import os

    return os.getpid()


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def show_table(work: Work, costs: Costs) -> list[dict[str, Any]]:
    print(f"{'thousand sets/s (fraction)':<32}", *(f"{n:>11}" for n in WORKERS))
    rows = []
    for mode, graph in MODES.items():
        rates = [rate(graph, work, costs, n) for n in WORKERS]
        print(
            f"{mode:<32}", *(f"{sets / 1e3:>6.0f} {fraction:>4.0%}" for sets, fraction in rates), flush=True
        )
        rows.append({"mode": mode, "workers": WORKERS, "sets_a_second": [sets for sets, _ in rates]})
    return rows


def compare(work: Work, costs: Costs, quick: bool, folder: Path) -> list[dict[str, Any]]:
    """Compare fits on workers of this machine (differences between numbers of epochs) with the simulation.

    There are enough blocks that two replicas are averaged as often as in a fit of millions of sets.
    """
    n_blocks, processors, rows = (
        8 if quick else 2 * BLOCKS_PER_SYNC * MIN_SYNCS_PER_EPOCH,
        psutil.cpu_count() or 1,
        [],
    )
    costs = costs._replace(message=0.0)
    y = write_store(str(folder / "real.zarr"), n_blocks * BLOCK)
    sets = dk.open_sets(str(folder / "real.zarr"), block_sets=BLOCK)
    embedding, features, _ = (step for _, step in pipeline(1).steps)
    for n in (1, 2) if quick else (1, 2, 4):
        with cluster(folder, n):
            A = embedding.fit(sets).transform(sets)
            Z = features.fit(A).transform(A)
            replica_graph = partial(replicas, blocks_per_epoch=max(n_blocks, n * MIN_SYNCS_PER_EPOCH))
            for mode, n_lanes, graph in (
                ("SGD, one lane", 1, one_lane),
                ("SGD, a lane a worker", n, replica_graph),
            ):
                if n_lanes == 1 and graph is not one_lane:
                    continue
                models = [
                    dk.IncrementalSGDClassifier(
                        eta0=4.0, n_epochs=e, n_lanes=n_lanes, cache=False, random_state=0
                    )
                    for e in (1, 3)
                ]
                calls = [partial(model.fit, Z, y) for model in models]
                time_interleaved(calls, 1)
                seconds, _ = time_interleaved(calls, 1 if quick else 3)
                one_epoch, three_epochs = seconds.min(axis=0)
                measured_rate = 2 * len(y) / max(1e-9, three_epochs - one_epoch)
                simulated_rate = rate(graph, work, costs, n, processors)[0]
                note = "" if n <= processors else f", on {processors} processors"
                print(f"{mode:<24} {n} workers{note}: {measured_rate:,.0f} sets/s, simulated {simulated_rate:,.0f}, "
                      f"ratio {measured_rate / simulated_rate:.2f}", flush=True)  # fmt: skip
                rows.append({"mode": mode, "workers": n, "found": measured_rate, "simulated": simulated_rate})
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=["measure", "table", "real", []], help="parts to run (default: all)"
    )
    args = parser.parse_args()
    figures, parts = start_report(), args.parts or ["measure", "table", "real"]
    with tempfile.TemporaryDirectory() as folder:
        work, costs = measure_work(args.quick), measure_tasks(args.quick, Path(folder))
        text = ", ".join(f"{name} {1e3 * seconds:.2f}" for name, seconds in work.items())
        print(f"processor milliseconds per block of {BLOCK} sets: {text}")
        print(f"milliseconds per task: client {1e3 * costs.client:.2f}, scheduler {1e3 * costs.scheduler:.2f}, "
              f"worker {1e3 * costs.worker:.2f}; assumed: {1e3 * costs.message:g} per message, 1 GB/s")  # fmt: skip
        figures |= {"work": work, "costs": costs._asdict(), "window": default_window(True)}
        if "table" in parts:
            figures["table"] = show_table(work, costs)
        if "real" in parts:
            figures["real"] = compare(work, costs, args.quick, Path(folder))
    write(args.output, figures)


if __name__ == "__main__":
    main()
