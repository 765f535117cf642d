"""Workers with different CPU kernels raise, or are allowed with a warning, whenever they join."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import dkdist as dk
from dkdist._runtime import process as processors
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.cluster import checked_workers
from dkdist._runtime.map_reduce import fold, map_blocks, tree_sum
from dkdist._runtime.process import (
    MixedProcessorsError,
    SameCpuTask,
    cpu_features,
    cpu_kind,
    require_same_features,
)

from .programs import Programs

BLOCKS = row_blocks(da.from_array(np.ones((40, 2)), chunks=(10, 2)))
REPORT = "import json; from dkdist._runtime.process import cpu_features; print(json.dumps(cpu_features()))"
CLIENT_FEATURES = {
    "system": ("Linux", "x86_64"),
    "BLAS": ("openblas-1-Haswell",),
    "Numba": ("generic",),
    "NumPy": ("X86_V2",),
}

openblas_on_x86 = pytest.mark.skipif(
    not any("openblas" in word for word in cpu_features()["BLAS"])
    or "x86_64" not in cpu_features()["system"],
    reason="these kernels are chosen by the variables of OpenBLAS on x86-64",
)


def other_blas() -> dict[str, str]:
    """Return an environment with kernels that all x86-64 processors support and this process does not use."""
    here = " ".join(cpu_features()["BLAS"])
    return {"OPENBLAS_CORETYPE": "Nehalem" if "Nehalem" not in here else "Prescott"}


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"
    ) as result:
        yield result


def start_worker(run: Programs, cluster: LocalCluster, *options: str) -> None:
    command = ["dask", "worker", cluster.scheduler_address, "--nthreads", "1", "--no-dashboard", *options]
    run.start(command, expected_output="Registered to")


def reported_features(**environment: str) -> dict[str, list[str]]:
    """Return `cpu_features` of a process with this environment."""
    command = [sys.executable, "-c", REPORT]
    result = subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return dict(json.loads(result.stdout))


def total(block: np.ndarray, _: None) -> float:
    return float(block.sum())


def first(output: Iterator[np.ndarray], _: None) -> np.ndarray:
    return next(output)


def test_error_names_differences_and_workers() -> None:
    worker_features = {
        "tcp://good:1": dict(CLIENT_FEATURES),
        "tcp://new:1": {**CLIENT_FEATURES, "Numba": ("znver5", "avx")},
    }
    worker_features |= {
        f"tcp://host:{i}": {**CLIENT_FEATURES, "BLAS": ("openblas-1-SkylakeX",)} for i in range(5)
    }
    with pytest.raises(MixedProcessorsError, match="No work was submitted") as error:
        require_same_features(CLIENT_FEATURES, worker_features)
    assert [line.strip() for line in str(error.value).splitlines()[1:5]] == [
        "tcp://new:1: Numba generic (client), znver5 avx (worker)",
        "tcp://host:0: BLAS openblas-1-Haswell (client), openblas-1-SkylakeX (worker)",
        "tcp://host:1: BLAS openblas-1-Haswell (client), openblas-1-SkylakeX (worker)",
        "and 3 more",
    ]
    assert "'dkdist.allow-mixed-processors'" in str(error.value)
    require_same_features(CLIENT_FEATURES, {"tcp://good:1": dict(CLIENT_FEATURES)})


def test_allowed_mixed_processors_warn() -> None:
    worker_features = {"tcp://host:1": {**CLIENT_FEATURES, "NumPy": ("X86_V2", "X86_V3")}}
    with (
        dask.config.set({"dkdist.allow-mixed-processors": True}),
        pytest.warns(
            RuntimeWarning,
            match=r"(?s)last bits.*tcp://host:1: NumPy \(no others\) \(client\), X86_V3 \(worker\)",
        ),
    ):
        require_same_features(CLIENT_FEATURES, worker_features)
    with (
        dask.config.set({"dkdist.allow-mixed-processors": "no"}),
        pytest.raises(ValueError, match="must be true or false; got 'no'"),
    ):
        require_same_features(CLIENT_FEATURES, worker_features)


@openblas_on_x86
def test_cpu_features_follow_environment_variables() -> None:
    """Each variable changes its kernels, and the environment advised by the message has the stated effect."""
    here = {kind: list(names) for kind, names in cpu_features().items()}
    assert reported_features() == here
    other = reported_features(**other_blas(), NUMBA_CPU_NAME="generic", NPY_DISABLE_CPU_FEATURES="X86_V3")
    assert [kind for kind in here if other[kind] != here[kind]] == ["BLAS", "Numba", "NumPy"]
    assert other["Numba"] == ["generic"]
    advised = re.findall(r"([A-Z_]+)=(?:'(.*?)'|(\S*))", processors.REMEDY)
    pinned = reported_features(**{name: quoted or plain for name, quoted, plain in advised})
    assert all(word.endswith("Haswell") for word in pinned["BLAS"])
    assert pinned["Numba"] == ["x86-64-v3"]
    assert pinned["NumPy"] == ["X86_V2", "X86_V3"]


@openblas_on_x86
def test_fit_on_mixed_processors(cluster: LocalCluster, tmp_path: Path) -> None:
    """Fits raise, or warn if allowed; lazy features computed by the user are also checked."""
    rng = np.random.default_rng(0)
    dk.write_sets(tmp_path / "s.zarr", list(rng.random((300, 5, 2))), targets=rng.random(300))
    sets = dk.open_sets(tmp_path / "s.zarr", block_sets=30)
    embedding = dk.MomentEmbedding(degree=2)
    with Programs(tmp_path, **other_blas()) as run:
        start_worker(run, cluster)
        with Client(cluster) as client:
            own_workers = {worker.address for worker in cluster.workers.values()}
            (other,) = set(client.nthreads()) - own_workers
            features = embedding.fit(sets[:5].load()).transform(sets)
            with pytest.raises(MixedProcessorsError, match="of another type than this client") as error:
                dk.IncrementalRidge(random_state=0).fit(features, sets.targets["y"])
            assert f"{other}: " in str(error.value)
            assert not own_workers & set(re.findall(r"tcp://[\d.:]+", str(error.value)))
            with pytest.raises(MixedProcessorsError, match="received a task"):
                client.compute(features, workers=[other]).result()
        with Client(cluster), dask.config.set({"dkdist.allow-mixed-processors": True}):
            with pytest.warns(RuntimeWarning, match=f"several types:(?s:.)*{other}: "):
                model = dk.IncrementalRidge(random_state=0).fit(embedding.transform(sets), sets.targets["y"])
            # warns only once
            refitted = dk.IncrementalRidge(random_state=0).fit(embedding.transform(sets), sets.targets["y"])
        np.testing.assert_allclose(model.coef_, refitted.coef_, rtol=1e-6)


def test_tasks_check_the_processor_of_their_worker(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of maps, folds and sums raise on workers that were not inspected."""
    jobs = [Job((i,)) for i in range(4)]
    work = {
        "map": lambda: map_blocks(BLOCKS, total),
        "fold": lambda: fold(BLOCKS, jobs, first, np.maximum, np.zeros(2)),
        "sum": lambda: tree_sum(BLOCKS, jobs, first, np.add, window=2),
    }
    with Client(cluster):
        expected = {name: run_work() for name, run_work in work.items()}
        monkeypatch.setattr(processors, "cpu_kind", changing_kinds().__next__)
        for run_work in work.values():
            with pytest.raises(
                MixedProcessorsError, match="received a task from a processor of another type"
            ):
                run_work()
        monkeypatch.undo()
        for name, run_work in work.items():
            np.testing.assert_array_equal(run_work(), expected[name])


def changing_kinds() -> Iterator[str]:
    """Yield a different kind each time."""
    number = 0
    while True:
        number += 1
        yield str(number)


def test_function_checks_the_processor() -> None:
    assert SameCpuTask(total, cpu_kind())(np.ones(3), None) == 3
    with pytest.raises(MixedProcessorsError, match=r"(?s)process \d+ on .*Numba.*To fix"):
        SameCpuTask(total, "another")(np.ones(3), None)


@pytest.mark.network
@openblas_on_x86
def test_worker_that_joins_late_is_checked(cluster: LocalCluster, tmp_path: Path) -> None:
    with Client(cluster) as client, Programs(tmp_path, NUMBA_CPU_NAME="generic") as run:
        with (
            pytest.raises(MixedProcessorsError, match=r"tcp://.*Numba .* generic \(worker\)"),
            checked_workers(client),
        ):
            start_worker(run, cluster)
        with pytest.raises(MixedProcessorsError):
            map_blocks(BLOCKS, total)
