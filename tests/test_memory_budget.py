"""Memory limits: cgroups, address space, Dask's limits, and the only module that reads them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import psutil
import pytest

import dkdist as dk
from dkdist._runtime.run import plan_of, resources
from dkdist._utils import memory_budget
from dkdist._utils.memory_budget import (
    cgroup_limits,
    free_bytes,
    memory_limit,
    require_memory,
    resident_bytes,
)
from dkdist.linear.ridge_statistics import tile_rows

resource = pytest.importorskip("resource", reason="limits of processes are of POSIX")

MB = 2**20
ROOT = Path(__file__).parents[1]


def write(folder, **numbers):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in numbers.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def make_proc(tmp_path, paths, kind, root):
    """Return a folder like /proc/self of a process in cgroups mounted at ``tmp_path / "mount"``."""
    options = "rw,memory" if kind == "cgroup" else "rw"
    mount = f"31 23 0:28 {root} {tmp_path / 'mount'} rw,nosuid shared:1 - {kind} {kind} {options}\n"
    other = f"30 23 0:27 / {tmp_path / 'cpu'} rw - cgroup cgroup rw,cpu\n"
    write(tmp_path / "self", cgroup=paths, mountinfo=other + mount, statm="0 0")
    return tmp_path / "self"


def test_cgroup_v2_limits_of_the_path_and_its_parents(tmp_path):
    proc_folder = make_proc(tmp_path, "0::/user/job", "cgroup2", "/")
    job, user, top = (tmp_path / "mount" / name for name in ("user/job", "user", ""))
    write(top, memory__max=10 * MB)  # limit of all processes
    write(user, memory__max="max", memory__high=800 * MB, memory__current=500 * MB)
    write(
        job, memory__max=600 * MB, memory__current=450 * MB, memory__stat=f"anon 1\ninactive_file {50 * MB}"
    )
    assert cgroup_limits(proc_folder) == [(600 * MB, 200 * MB), (800 * MB, 300 * MB), (10 * MB, 10 * MB)]


def test_cgroup_v1_limits_of_the_memory_controller(tmp_path):
    proc_folder = make_proc(
        tmp_path, "5:cpu:/elsewhere\n4:memory:/docker/abc/inner\n0::/", "cgroup", "/docker/abc"
    )
    usage = {"memory__usage_in_bytes": 100 * MB, "memory__stat": f"total_inactive_file {20 * MB}"}
    write(tmp_path / "mount", memory__limit_in_bytes=700 * MB, **usage)
    write(tmp_path / "mount" / "inner", memory__limit_in_bytes=2**63 - 4096)  # unlimited
    assert cgroup_limits(proc_folder) == [(700 * MB, 620 * MB)]
    # a container without access to the path of the host: its root is the mount
    (proc_folder / "cgroup").write_text("4:memory:/docker/of-the-host\n")
    assert cgroup_limits(proc_folder) == [(700 * MB, 620 * MB)]


def test_no_limits_without_cgroups(tmp_path):
    assert cgroup_limits(tmp_path) == []


def test_memory_limit_is_the_smallest_limit(tmp_path, monkeypatch):
    resident, machine = resident_bytes(), psutil.virtual_memory()
    assert 0 < memory_limit() <= machine.total
    monkeypatch.setattr(memory_budget, "cgroup_limits", lambda _: [(resident + 400 * MB, 300 * MB)])
    assert memory_limit() == pytest.approx(resident + 300 * MB, rel=0.1)
    used = int(psutil.Process().memory_info().vms)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + 200 * MB, used + 200 * MB))
    assert free_bytes() == pytest.approx(200 * MB, rel=0.1)
    worker = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=resident + 50 * MB))
    module = SimpleNamespace(Worker=SimpleNamespace(_instances=[SimpleNamespace(), worker]))
    monkeypatch.setitem(sys.modules, "distributed.worker", module)
    assert memory_limit() == resident + 50 * MB
    with dask.config.set({"dkdist.memory-limit": "3 GB"}):
        assert memory_limit() == 3 * 10**9
        assert resources().memory == 3 * 10**9


def test_require_memory_raises_with_the_remedy():
    require_memory(1000, "a small array")
    with dask.config.set({"dkdist.memory-limit": resident_bytes() + 50 * MB}):
        require_memory(20 * MB, "an array")
        with pytest.raises(
            MemoryError, match=r"the ids need 2 GB .* read fewer sets, or .*'dkdist.memory-limit'"
        ):
            require_memory(2 * 10**9, "the ids need", "read fewer sets")


def test_plan_includes_resident_memory():
    X, y = np.zeros((50, 4)), np.arange(50.0)
    start = dk.IncrementalRidge().fit
    plan = plan_of(lambda: start(X, y))
    assert plan.peak_bytes == plan.base_bytes + plan.work_bytes
    assert plan.base_bytes == pytest.approx(resident_bytes(), rel=0.1)
    with dask.config.set({"dkdist.memory-limit": plan.base_bytes // 2}):
        assert plan.work_bytes < plan.base_bytes // 2
        with pytest.raises(MemoryError, match=r"base .* does not fit"):
            start(X, y)


def test_plan_counts_matrices_of_actual_tasks():
    """One task has one matrix, and its decomposition needs four more, independently of the maximum number of tasks."""
    X = np.zeros((1000, 200))
    plan = plan_of(lambda: dk.IncrementalRidge().fit(X, np.arange(1000.0)))
    threads = resources(local=True).threads
    rows = (threads + 1) * X.nbytes + threads * tile_rows(200, X.dtype) * 200 * X.itemsize
    targets = 8 * (2 * 1000 + 200)  # two copies, and the sums with the columns
    assert 0 <= plan.work_bytes - 5 * 8 * 200**2 <= rows + targets


def test_only_memory_budget_reads_system_memory():
    texts = {path: path.read_text() for path in (ROOT / "dkdist").rglob("*.py")}
    result = [path.name for path, text in texts.items() if "psutil" in text or "MEMORY_LIMIT" in text]
    assert result == ["memory_budget.py"]
