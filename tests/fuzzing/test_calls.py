"""Public callables with invalid values: a clear error or a finite result, in 5 seconds and 2 GB."""

from __future__ import annotations

import os
import queue
import time
from collections import Counter
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import dkdist as dk

resource = pytest.importorskip("resource", reason="limits of processes are of POSIX")

WALL_SECONDS = 60.0  # per call, on a shared machine
COMPILATION = -1  # instead of a seed: the valid call, which compiles functions and takes longer
CPU_SECONDS = 5.0
EXTRA_BYTES = 4 * 2**30  # threads of libraries reserve address space without using it


def calls_module() -> Any:
    """Return the module of all calls, imported late since it compiles functions, which all test processes would do
    during collection."""
    return import_module(".calls", __package__)


def work(names: list[str], seeds: range, messages: Any) -> None:
    """Run all calls in a separate process, and announce each before it starts."""
    import dask

    calls = calls_module()
    dask.config.set(scheduler="synchronous")
    os.chdir(calls.PLACE)  # invalid values contain relative paths
    calls.prepare()
    resource.setrlimit(resource.RLIMIT_AS, (_used_address_space() + EXTRA_BYTES,) * 2)
    for name in names:
        messages.put(("begun", name, COMPILATION, ""))
        try:
            calls.CALLS[name].function(**calls.CALLS[name].valid)  # compiles functions
        except Exception as error:
            messages.put(("done", name, COMPILATION, f"the valid call fails: {error}"))
        for seed in seeds:
            messages.put(("begun", name, seed, ""))
            text, spent = _run_timed(name, seed)
            # repeated, since the first call may compile functions
            if spent > CPU_SECONDS and _run_timed(name, seed)[1] > CPU_SECONDS:
                text = f"SLOW {name}: {text}"
            messages.put(("done", name, seed, text))
    messages.put(("end", "", 0, ""))


def _run_timed(name: str, seed: int) -> tuple[str, float]:
    before = time.process_time()
    text = calls_module().outcome(name, seed)
    return text, time.process_time() - before


def _used_address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run(seeds: range) -> tuple[Counter[str], list[str]]:
    """Return counts of outcomes, and descriptions of failures."""
    context = get_context("spawn")
    results = context.Queue()
    process = context.Process(target=work, args=(list(calls_module().CALLS), seeds, results))
    process.start()
    counts: Counter[str] = Counter()
    failures, last = [], ("", COMPILATION)
    while True:
        try:
            kind, name, seed, text = results.get(timeout=WALL_SECONDS * (5 if last[1] == COMPILATION else 1))
        except queue.Empty:
            failures.append(f"{last[0]}, seed {last[1]}: HANG or crash (exit code {process.exitcode})")
            break
        last = name, seed
        if kind == "end":
            break
        if kind == "done":
            counts[text.split()[0]] += 1
            if text not in ("fine", "clear"):
                failures.append(f"{name}, seed {seed}: {text}")
    process.kill()
    process.join()
    return counts, failures


def check(seeds: range) -> None:
    counts, failures = run(seeds)
    print(dict(counts))
    assert not failures, f"{len(failures)} calls:\n" + "\n".join(failures[:20])
    assert counts["clear"] > counts["fine"] > 0
    assert sum(counts.values()) == len(calls_module().CALLS) * len(seeds)


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="needs limits of memory")
def test_invalid_arguments_raise_clear_errors() -> None:
    check(range(6))


@pytest.mark.chaos
def test_ten_thousand_invalid_calls() -> None:
    check(range(1000, 1150))


def test_all_public_names_are_called() -> None:
    source = Path(__file__).with_name("calls.py").read_text()
    result_classes = {
        name
        for name in dk.__all__
        if name in ("Alignment", "Coreset", "HddErrorBound", "KernelError", "KernelGradient")
    }
    dataset_names = {f"datasets.{name}" for name in dk.datasets.__all__}
    uncalled = {name for name in {*dk.__all__, *dataset_names} if f"dk.{name}" not in source} - result_classes
    assert uncalled <= NOT_CALLED, uncalled


NOT_CALLED = {
    *("SampleSetError", "SourceError", "StoreFormatError"),  # errors
    *("SetStore", "LazySets", "ShapePoints"),  # made by open_sets, as_sets and gridded_shape
    *("datasets", "datasets.load_digits_as_sets"),  # takes no arguments
    *("Kernel", "GaussianMixture", "register_kernel", "register_distance"),  # store their arguments
}


def test_is_clear_rejects_unclear_errors() -> None:
    def raises_clear_error(call: Any) -> bool:
        try:
            call()
        except Exception as error:
            return bool(calls_module().is_clear(error, ["eps"]))
        raise AssertionError("no error")

    assert raises_clear_error(lambda: dk.coreset_size(-1))
    assert not raises_clear_error(lambda: int("no number at all"))
    assert not raises_clear_error(lambda: {}["a key that is not there"])
    assert not raises_clear_error(lambda: None.something_long_enough)  # type: ignore[attr-defined]
    assert not calls_module().is_finite([1.0, (float("nan"),)])
