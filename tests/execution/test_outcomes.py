"""Errors and warnings of tasks: the first in the order of rows, and once per run."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from functools import partial

import dask
import numpy as np
import pytest
from dashboard.models import local_client
from distributed import Client, LocalCluster
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dkdist as dk
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.map_reduce import fold, map_pieces, tree_sum
from dkdist._runtime.outcomes import Outcome, SetWarning, combine, merge_warnings
from dkdist._runtime.set_warnings import warn_of_sets

THIS_FILE = __file__
TEXT = "{n_sets} sets ({positions}; first {first}), {n_points} points: {reason}"


@pytest.fixture(params=["threads", "cluster"])
def scheduler(request):
    """Run on two threads of this process, or on a cluster in this process."""
    if request.param == "threads":
        with dask.config.set(num_workers=2):
            yield
    else:
        with local_client(2, 1):
            yield


LATER_FAILED = threading.Event()


def fail_in_reverse_order(j):
    if j == 1:
        LATER_FAILED.set()
    elif j == 0:
        assert LATER_FAILED.wait(30)
    raise ValueError(f"piece {j}")


def test_first_error_is_raised_although_a_later_one_is_earlier_in_time(scheduler):
    work = fail_in_reverse_order
    LATER_FAILED.clear()
    with pytest.raises(ValueError, match="piece 0"):
        map_pieces(work, range(300), label="make")


def test_little_work_follows_an_error(scheduler):
    done = []

    def work(j):
        done.append(j)
        if j == 3:
            raise ValueError("piece 3")

    with pytest.raises(ValueError, match="piece 3"):
        map_pieces(work, range(300), label="make")
    assert len(done) < 100


BLOCKS = row_blocks(np.arange(2.0**17)[:, None])
JOBS = [Job((0,), j) for j in range(60)]


def fail_late(blocks, j):
    """Raise errors for jobs 9 and 5, in this order if they run at the same time."""
    if j in (5, 9):
        raise ValueError(f"job {j}")
    return 1


@pytest.mark.parametrize("run", [fold, tree_sum])
def test_folds_and_sums_raise_the_first_error(scheduler, run):
    options = {"state": 0} if run is fold else {"window": 4}
    with pytest.raises(ValueError, match="job 5") as caught:
        run(BLOCKS, JOBS, fail_late, int.__add__, **options)
    assert "rows 0 to" in " ".join(caught.value.__notes__)


def warn_in_job(blocks, j):
    if j % 2:
        warn_of_sets(SetWarning.of(TEXT, [100 - j, 200 + j], f"error {j}", 3))
    return 1


@pytest.mark.parametrize("run", ["map", "fold", "sum"])
def test_warnings_of_a_run_are_one_with_totals(scheduler, run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if run == "map":
            assert map_pieces(lambda j: warn_in_job(None, j), range(60), label="make") == [1] * 60
        elif run == "fold":
            assert fold(BLOCKS, JOBS, warn_in_job, int.__add__, 0) == 60
        else:
            assert tree_sum(BLOCKS, JOBS, warn_in_job, int.__add__, window=4) == 60
    (warning,) = caught
    positions = ", ".join(str(i) for i in range(41, 61, 2))
    assert str(warning.message) == f"60 sets ({positions}, ...; first 41), 90 points: error 59"
    assert warning.filename == THIS_FILE


def test_quiet_jobs_do_not_warn(scheduler):
    jobs = [Job((0,), j, quiet=j > 1) for j in range(60)]
    with pytest.warns(UserWarning, match=r"2 sets \(99, 201; first 99\), 3 points: error 1") as caught:
        fold(BLOCKS, jobs, warn_in_job, int.__add__, 0)
    assert len(caught) == 1


def test_merged_warnings_do_not_depend_on_the_order():
    parts = [{TEXT: SetWarning.of(TEXT, range(10 * k, 10 * k + 3), f"error {k}")} for k in (4, 0, 7, 2, 5)]
    forward, backward = merge_warnings(parts), merge_warnings(parts[::-1])
    assert forward == backward
    assert forward[TEXT].n_sets == 15
    assert forward[TEXT].positions == (0, 1, 2, 20, 21, 22, 40, 41, 42, 50)
    assert forward[TEXT].reason == "error 0"


def test_combined_outcomes_keep_the_first_error():
    errors = [Outcome(error=ValueError(str(i))) for i in range(2)]
    assert combine(int.__add__, Outcome(1), *errors) is errors[0]
    assert combine(int.__add__, Outcome(1), Outcome(2)).value == 3


REFUSAL = """
import sys
import dkdist as dk
from distributed import Client, LocalCluster
from sklearn.pipeline import make_pipeline

if __name__ == "__main__":
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster):
        sets = dk.open_sets(sys.argv[1], block_sets=20)
        embedding = dk.DivergenceEmbedding(n_basis=6, domain="unit")
        if sys.argv[2] == "pipeline":
            model = make_pipeline(embedding, dk.IncrementalRidgeClassifier(random_state=0))
            model.fit(sets, sets.targets["y"])
        else:
            X = embedding.fit(sets[:40]).transform(sets)
            dk.IncrementalSGDClassifier(eta0=0.1, random_state=0).fit(X, sets.targets["y"])
"""
BAD = [*range(45, 600, 30)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("outcomes") / "bad.zarr"
    sets = list(rng.random((600, 4, 2)))
    for i in BAD:
        sets[i] = sets[i] + 2.0
    dk.write_sets(path, sets, targets=np.arange(600) % 2)
    return path


@pytest.mark.network
@pytest.mark.parametrize("model", ["pipeline", "sgd"])
def test_refused_fit_on_two_processes_prints_little_and_names_the_first_set(store, tmp_path, model):
    script = tmp_path / "refusal.py"
    script.write_text(REFUSAL)
    done = subprocess.run(
        [sys.executable, str(script), str(store), model], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "distributed.nanny" not in line]
    assert len(lines) < 40, "\n".join(lines)
    assert f"of set {BAD[0]} is" in done.stderr
    assert done.stderr.count("Traceback") == 1


@pytest.mark.network
def test_errors_of_worker_processes_keep_causes(store):
    def fail(points):
        raise KeyError("no such column")

    embedding = dk.FunctionEmbedding(lambda points: points.mean(axis=0)).fit(dk.open_sets(store))
    model = dk.IncrementalRidge(random_state=0)
    X = embedding.transform(dk.open_sets(store, block_sets=20))
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as c,
        Client(c),
    ):
        model.fit(X, np.arange(600.0))
        embedding.spec_.__dict__["function"] = fail
        with pytest.raises(dk.SampleSetError, match=r"set 0 has no features: .* KeyError") as caught:
            model.fit(embedding.transform(dk.open_sets(store, block_sets=20)), np.arange(600.0))
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("call", ["fit", "compute", "values"])
def test_skipped_sets_give_one_warning_at_the_line_of_the_user(scheduler, store, call, request):
    sets = dk.open_sets(store, block_sets=20)
    embedding = dk.DivergenceEmbedding(n_basis=6, domain="unit", on_error="skip")
    with warnings.catch_warnings(action="ignore"):
        embedding.fit(sets)
    X, y = embedding.transform(sets), sets.targets["y"]
    model = dk.IncrementalSGDClassifier(n_epochs=2, random_state=0, on_error="skip")
    if call == "values":
        with warnings.catch_warnings(action="ignore"):
            model.fit(X, y)
    if call == "compute" and "cluster" in request.node.name:
        pytest.skip("workers send the warnings of computations of the user")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        {"fit": lambda: model.fit(X, y), "compute": X.compute, "values": lambda: model.decision_function(X)}[
            call
        ]()
    (warning,) = caught
    assert str(warning.message).startswith(f"{len(BAD)} ")
    assert f"First error: point 0 of set {BAD[0]} is" in str(warning.message)
    assert warning.filename == THIS_FILE


SGD = dk.IncrementalSGDClassifier
LEARNERS = {
    "sgd": SGD(random_state=0),
    "sgd with a step": SGD(eta0=0.1, random_state=0),
    "lanes": SGD(eta0=0.1, n_lanes=2, random_state=0),
    "cached": SGD(eta0=0.1, cache="memory", n_epochs=2, random_state=0),
    "ridge": dk.IncrementalRidgeClassifier(random_state=0),
}


@pytest.mark.parametrize("name", [*LEARNERS, "partial_fit"])
def test_refused_fit_names_the_first_invalid_row_in_any_training_order(scheduler, store, name, request):
    if name == "cached" and "cluster" in request.node.name:
        pytest.skip("a cluster has no cache in the memory of this process")
    sets = dk.open_sets(store, block_sets=20)
    embedding = dk.DivergenceEmbedding(n_basis=6, domain="unit").fit(sets[: BAD[0]])
    X, y = embedding.transform(sets), sets.targets["y"]
    partial_fit = partial(SGD(eta0=0.1, random_state=0).partial_fit, classes=[0, 1])
    fit = partial_fit if name == "partial_fit" else LEARNERS[name].fit
    with pytest.raises(dk.SampleSetError, match=rf"of set {BAD[0]} is") as caught:
        fit(X, y)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def caught_warnings(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    assert all(warning.filename == THIS_FILE for warning in caught)
    return [str(warning.message) for warning in caught]


def skipping_steps():
    embedding = dk.DivergenceEmbedding(n_basis=6, domain="unit", on_error="skip")
    return embedding, SGD(n_epochs=2, random_state=0, on_error="skip")


@pytest.fixture(scope="module")
def half_invalid(tmp_path_factory):
    """Return a store of 2,000 sets; 1,000 of them are outside the unit square."""
    path = tmp_path_factory.mktemp("half_invalid") / "sets.zarr"
    sets = np.random.default_rng(0).random((2000, 2, 2)) + 2.0 * (np.arange(2000) % 2)[:, None, None]
    dk.write_sets(path, list(sets), targets=np.arange(2000) // 2 % 2)
    return path


def assert_pipeline_warns_once(path, kind):
    sets = dk.open_sets(path, block_sets=100)
    y = sets.targets["y"]
    sets = sets if kind == "store" else sets.load()
    model = make_pipeline(*skipping_steps())
    for call in (model.fit, model.score):
        (message,) = caught_warnings(lambda call=call: call(sets, y))
        assert message.startswith("1000 ")
        assert ": 1, 3, 5, " in message
        assert "First error: point 0 of set 1 is" in message


@pytest.mark.parametrize("kind", ["memory", "store"])
def test_pipeline_warns_once_about_the_sets_that_all_steps_skip(scheduler, half_invalid, kind):
    assert_pipeline_warns_once(half_invalid, kind)


@pytest.mark.network
def test_two_processes_warn_once_per_run_and_not_about_rows_of_the_user(half_invalid):
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        for kind in ("memory", "store"):
            assert_pipeline_warns_once(half_invalid, kind)
        sets = dk.open_sets(half_invalid, block_sets=100)
        embedding = skipping_steps()[0]
        assert len(caught_warnings(lambda: embedding.fit(sets))) == 1
        rows = embedding.transform(sets).compute()
        assert client.get_events("warn") == ()
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(rows).any(axis=1)), np.arange(1, 2000, 2))


def test_other_calls_and_other_sets_have_their_own_warnings(half_invalid):
    sets = dk.open_sets(half_invalid).load()
    embedding, model = skipping_steps()
    X, y = np.empty(0), dk.open_sets(half_invalid).targets["y"]

    def fit_separately():
        nonlocal X
        embedding.fit(sets)
        X = embedding.transform(sets)
        model.fit(X, y)

    assert len(caught_warnings(fit_separately)) == 3
    pipeline = make_pipeline(embedding, model)
    assert len(caught_warnings(lambda: [pipeline.fit(sets, y) for _ in range(3)])) == 3

    class Damage(FunctionTransformer):
        """Make a further row invalid between the steps."""

        def fit_transform(self, X, y=None):
            X = X.copy()
            X[0] = np.nan
            return X

    messages = caught_warnings(lambda: make_pipeline(embedding, Damage(), model).fit(sets, y))
    assert [message.partition(" ")[0] for message in messages] == ["1000", "1001"]
