"""Slow compilation is reported once, and only if it happens; `dkdist warm` compiles in advance."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time

import numba
import numpy as np
import pytest

import dkdist as dk
from dkdist._numba import compilation as compiling_loops
from dkdist._numba.compilation import COMPILE_WATCH, SILENT_SECONDS, CompileWatch, jit
from dkdist.cli import help as json_keys
from dkdist.cli import main, warm, warm_examples

# compiled functions that only coresets, kernels and oversized sets need
OVERSIZED_SETS_ONLY = {
    "_fights",
    "_squares",
    "_sum",
    "_add_piece",
}
OTHER_BLAS_ONLY = {"_scale"}
FUNCTION_SOURCE = """
from dkdist._numba.compilation import jit

@jit()
def doubled(x):
    total = 0.0
    for i in range(len(x)):
        total += 2 * x[i]
    return total
"""


@pytest.fixture
def load_function(tmp_path, monkeypatch):
    """Return a loader of a compiled function that is uncompiled at the first load and cached from then on."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "fresh_loop.py").write_text(FUNCTION_SOURCE)

    def load():
        names = {}
        exec(compile(FUNCTION_SOURCE, str(tmp_path / "fresh_loop.py"), "exec"), names)
        return names["doubled"]

    return load


def test_compilations_are_counted_and_cache_hits_are_not(load_function):
    before = COMPILE_WATCH.n_functions, COMPILE_WATCH.seconds
    assert load_function()(np.ones(3)) == 6
    assert COMPILE_WATCH.n_functions == before[0] + 1
    assert COMPILE_WATCH.seconds > before[1]
    assert load_function()(np.ones(3)) == 6
    assert COMPILE_WATCH.n_functions == before[0] + 1


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_collection_pauses_during_compilation_and_cache_reads(load_function, monkeypatch, collecting):
    seen = []
    monkeypatch.setattr(COMPILE_WATCH, "start", lambda: seen.append(gc.isenabled()))  # before the pause
    monkeypatch.setattr(COMPILE_WATCH, "stop", lambda: seen.append(gc.isenabled()))  # after it
    if not collecting:
        gc.disable()
    try:
        for _ in range(2):  # compiled, then read
            assert load_function()(np.ones(3)) == 6
            assert gc.isenabled() == collecting
        outer, inner = load_function(), load_function()
        for message in (outer, inner):
            compiling_loops.COMPILE_LISTENER.on_start(CompileEvent(message))
            assert not gc.isenabled()
        for message in (inner, outer):
            assert not gc.isenabled()
            compiling_loops.COMPILE_LISTENER.on_end(CompileEvent(message))
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
    assert seen[:2] == [collecting, collecting]


class CompileEvent:
    """A compilation event of Numba."""

    def __init__(self, dispatcher):
        self.data = {"dispatcher": dispatcher}


def test_functions_of_other_packages_are_not_counted():
    before = COMPILE_WATCH.n_functions
    assert numba.njit(lambda x: x + 1)(2) == 3
    assert COMPILE_WATCH.n_functions == before


def test_a_long_compilation_is_reported_once_while_it_runs():
    watch, message = CompileWatch(), []
    with watch.telling(lambda: message.append(time.perf_counter())):
        for _ in range(2):
            start = time.perf_counter()
            watch.start()
            watch.start()  # a function inlined into the outer one
            watch.stop()
            while len(message) == 0 and time.perf_counter() < start + 60:
                time.sleep(0.01)
            watch.stop()
    assert len(message) == 1
    assert watch.n_functions == 2


def test_short_compilations_are_reported_when_their_sum_is_long():
    watch, message = CompileWatch(), []
    with watch.telling(lambda: message.append(watch.seconds)):
        while not message and watch.seconds < 60:
            watch.start()
            time.sleep(0.05)
            watch.stop()
    assert message[0] > SILENT_SECONDS - 0.1
    with watch.telling(lambda: message.append(0)):  # the sum restarts
        watch.start()
        watch.stop()
    assert len(message) == 1


def test_only_the_outermost_callback_is_called():
    watch, message = CompileWatch(), []
    with watch.telling(lambda: message.append("command")), watch.telling(lambda: message.append("fit")):
        watch.start()
        while not message:
            time.sleep(0.01)
        watch.stop()
    assert message == ["command"]


def test_a_command_reports_compilation_on_standard_error(bags, capsys, monkeypatch):
    def compiled(path):
        COMPILE_WATCH.start()
        time.sleep(SILENT_SECONDS + 0.3)
        COMPILE_WATCH.stop()
        raise ValueError("the end")

    monkeypatch.setattr(dk, "as_sets", compiled)
    assert main(["score", bags, "--model", "m.npz", "--target", "wide"]) == 2
    text, _ = capsys.readouterr().err.splitlines()
    assert text == "dkdist: compiling functions for this machine (once, usually 10 to 20 s)"


def test_verbose_fits_report_compilation(capsys, monkeypatch):
    from dkdist.linear import ridge_fitting as ridge_pass

    solved = ridge_pass.tree_sum

    def compiled(*value, **named):
        COMPILE_WATCH.start()
        time.sleep(SILENT_SECONDS + 0.3)
        COMPILE_WATCH.stop()
        return solved(*value, **named)

    monkeypatch.setattr(ridge_pass, "tree_sum", compiled)
    X, y = np.eye(4), np.arange(4.0)
    dk.IncrementalRidge(alphas=1.0).fit(X, y)
    assert capsys.readouterr().err == ""
    dk.IncrementalRidge(alphas=1.0, verbose=True).fit(X, y)
    assert "compiling functions for this machine (once" in capsys.readouterr().err


def test_an_unwritable_cache_folder_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compiling_loops._user_cache.cache_clear()
    try:
        folder, lasts = compiling_loops.code_cache()
        assert (lasts, "dkdist-numba-" in folder) == (False, True)
        assert "for this process only" in compiling_loops.compiling_text()
    finally:
        compiling_loops._user_cache.cache_clear()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner")
@pytest.mark.parametrize("requested", [True, False])
def test_a_cache_folder_that_others_may_write_is_not_used(requested, tmp_path, monkeypatch):
    folder = tmp_path / "dkdist" / "numba"
    folder.mkdir(parents=True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder) if requested else "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def used():
        compiling_loops._user_cache.cache_clear()
        return compiling_loops.code_cache() == (str(folder), True)

    try:
        for mode, own, other in ((0o755, True, True), (0o775, True, requested), (0o1777, True, False)):
            folder.chmod(mode)
            assert used() == own
            with monkeypatch.context() as patch:
                patch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
                assert used() == other
                assert ("for this process only" in compiling_loops.compiling_text()) != other
    finally:
        compiling_loops._user_cache.cache_clear()


def test_warm_reports_cache_folder_and_number_of_functions(capsys, monkeypatch):
    def compiled():
        COMPILE_WATCH.start()
        COMPILE_WATCH.stop()

    monkeypatch.setattr(warm, "compile_default_fit", compiled)
    assert main(["warm", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == list(json_keys.WARM)
    assert (result["n_compiled"], result["lasts"]) == (1, True)
    assert result["folder"] == compiling_loops.code_cache()[0]
    monkeypatch.setattr(warm, "compile_default_fit", lambda: None)
    assert main(["warm"]) == 0
    assert capsys.readouterr().out.startswith(
        f"all functions were compiled already, cached in {result['folder']}; "
    )


def test_after_warm_a_default_fit_compiles_nothing(tmp_path):
    """In a separate process, `fit` and `score` add no signature to any compiled function after `warm`."""
    code = (
        "import gc, numpy as np, dkdist as dk\n"
        "from numba.core.registry import CPUDispatcher\n"
        "from dkdist.cli import main\n"
        "from dkdist._numba.compilation import CodeCache\n"
        "def n_ready():\n"
        "    compiled = [one for one in gc.get_objects() if type(one) is CPUDispatcher]\n"
        "    return sum(len(one.signatures) for one in compiled if isinstance(one._cache, CodeCache))\n"
        "assert main(['warm']) == 0\n"
        "before = n_ready()\n"
        "for d in (2,):\n"
        "    sets = [np.random.default_rng(i).normal(size=(30, d)) for i in range(40)]\n"
        "    dk.write_sets(f's{d}.zarr', sets, targets=np.arange(40) % 2)\n"
        "    common = ['--target', 'y', '--model', f'm{d}.npz']\n"
        "    assert main(['fit', f's{d}.zarr', *common]) == 0\n"
        "    assert main(['score', f's{d}.zarr', *common]) == 0\n"
        "cells, y = dk.datasets.make_cells(80, random_state=0)\n"  # the lines of the README
        "model = dk.SetClassifier(random_state=0).fit(cells[:60], y[:60])\n"
        "model.predict_proba(cells[60:]), model.score(cells[60:], y[60:]), model.explain(cells[60:])\n"
        "dk.group_test(cells, y, random_state=0)\n"
        "assert before > 5, before\n"
        "assert n_ready() == before, n_ready() - before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_warm_examples_leave_no_files_and_no_output(tmp_path, monkeypatch, capsys):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(dk, "__dir__", lambda: ["write_features", "SetScaler"])
    monkeypatch.setattr(warm_examples, "extra_calls", lambda: iter([print("said")]))
    warm_examples.run_all()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_a_compiled_function_returns_the_right_value(load_function):
    assert jit()(load_function().py_func)(np.arange(4.0)) == 12


@pytest.mark.slow
def test_warm_all_compiles_every_function(tmp_path):
    """Takes minutes: a separate process with an empty cache."""
    code = (
        "import importlib, pkgutil, dkdist\n"
        "from dkdist.cli import main\n"
        "from dkdist._numba.compilation import CodeCache\n"
        "assert main(['warm', '--all']) == 0\n"
        "names = [m.name for m in pkgutil.walk_packages(dkdist.__path__, 'dkdist.') if '__main__' not in m.name]\n"
        "rooms = [importlib.import_module(name) for name in names]\n"
        "found = [one for room in rooms for one in vars(room).values()]\n"
        "loops = [one for one in found if isinstance(getattr(one, '_cache', None), CodeCache)]\n"
        "print(*sorted({str(loop.py_func) for loop in loops if not loop.signatures}), sep='\\n')\n"
    )
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=cold
    )
    assert done.returncode == 0, done.stderr
    _, *missing = done.stdout.splitlines()
    result = {re.search(r"<function (\w+)", line)[1] for line in missing if line}
    assert result <= OVERSIZED_SETS_ONLY | OTHER_BLAS_ONLY
