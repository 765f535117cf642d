"""Every public callable with values that do not belong: a clear error or a finite result, in 5 seconds and 2 GB."""

from __future__ import annotations

import os
import queue
import resource
import time
from collections import Counter
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import dkdist as dk

WALL_SECONDS = 60.0  # of one call, on a machine that others use too
COMPILING = -1  # in the place of a seed: the valid call, which compiles what it needs and takes longer
CPU_SECONDS = 5.0
MORE_BYTES = 4 * 2**30  # threads of libraries reserve addresses that they never use


def the_calls() -> Any:
    """The module of all calls. It fits models, for which loops are compiled: not while tests are being collected, which
    all workers do at the same time, each for itself."""
    return import_module(".calls", __package__)


def work(names: list[str], seeds: range, told: Any) -> None:
    """All calls, each announced before it begins; runs in a process of its own."""
    import dask

    calls = the_calls()
    dask.config.set(scheduler="synchronous")
    os.chdir(calls.PLACE)  # relative names are among the wrong values
    calls.prepare()
    resource.setrlimit(resource.RLIMIT_AS, (_addresses() + MORE_BYTES,) * 2)
    for name in names:
        told.put(("begun", name, COMPILING, ""))
        try:
            calls.CALLS[name].function(**calls.CALLS[name].valid)  # compiles what it needs
        except Exception as error:
            told.put(("done", name, COMPILING, f"the valid call fails: {error}"))
        for seed in seeds:
            told.put(("begun", name, seed, ""))
            text, spent = _timed(name, seed)
            if spent > CPU_SECONDS and _timed(name, seed)[1] > CPU_SECONDS:  # not because loops were compiled
                text = f"SLOW {name}: {text}"
            told.put(("done", name, seed, text))
    told.put(("end", "", 0, ""))


def _timed(name: str, seed: int) -> tuple[str, float]:
    before = time.process_time()
    text = the_calls().outcome(name, seed)
    return text, time.process_time() - before


def _addresses() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run(seeds: range) -> tuple[Counter[str], list[str]]:
    """How the calls ended, and what should not have been."""
    context = get_context("spawn")
    message = context.Queue()
    process = context.Process(target=work, args=(list(the_calls().CALLS), seeds, message))
    process.start()
    counts: Counter[str] = Counter()
    odd, last = [], ("", COMPILING)
    while True:
        try:
            kind, name, seed, text = message.get(timeout=WALL_SECONDS * (5 if last[1] == COMPILING else 1))
        except queue.Empty:
            odd.append(f"{last[0]}, seed {last[1]}: HANG or crash (exit code {process.exitcode})")
            break
        last = name, seed
        if kind == "end":
            break
        if kind == "done":
            counts[text.split()[0]] += 1
            if text not in ("fine", "clear"):
                odd.append(f"{name}, seed {seed}: {text}")
    process.kill()
    process.join()
    return counts, odd


def check(seeds: range) -> None:
    counts, odd = run(seeds)
    print(dict(counts))
    assert not odd, f"{len(odd)} calls:\n" + "\n".join(odd[:20])
    assert counts["clear"] > counts["fine"] > 0
    assert sum(counts.values()) == len(the_calls().CALLS) * len(seeds)


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="needs limits of memory")
def test_wrong_arguments_are_refused_in_clear_words() -> None:
    check(range(6))


@pytest.mark.chaos
def test_ten_thousand_wrong_calls() -> None:
    check(range(1000, 1150))


def test_every_public_name_is_called() -> None:
    source = Path(__file__).with_name("calls.py").read_text()
    results = {
        name
        for name in dk.__all__
        if name in ("Alignment", "Coreset", "HddErrorBound", "KernelError", "KernelGradient")
    }
    inside = {f"datasets.{name}" for name in dk.datasets.__all__}
    never = {name for name in {*dk.__all__, *inside} if f"dk.{name}" not in source} - results
    assert never <= NOT_CALLED, never


NOT_CALLED = {
    *("SampleSetError", "SourceError", "StoreFormatError"),  # errors
    *("SetStore", "ShapePoints"),  # made by open_sets and gridded_shape
    *("datasets", "datasets.load_digits_as_sets"),  # takes no arguments
    *("Kernel", "GaussianMixture", "register_kernel", "register_distance"),  # keep what they are given
}


def test_the_oracle_of_clear_errors_can_fail() -> None:
    def raised(call: Any) -> bool:
        try:
            call()
        except Exception as error:
            return bool(the_calls().is_clear(error, ["eps"]))
        raise AssertionError("no error")

    assert raised(lambda: dk.coreset_size(-1))
    assert not raised(lambda: int("no number at all"))
    assert not raised(lambda: {}["a key that is not there"])
    assert not raised(lambda: None.something_long_enough)  # type: ignore[attr-defined]
    assert not the_calls().is_finite([1.0, (float("nan"),)])
