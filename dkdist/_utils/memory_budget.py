"""Memory that this process may use: the smallest of all limits that apply to it.

Every limit is converted to resident bytes of this process:

    memory cgroups (v1 and v2)   limit and unused part, for the cgroup of the process and all its parents
    RLIMIT_AS                    resident memory plus the unused address space
    a Dask worker                memory limit of the worker process
    the machine                  available memory

The configuration ``dkdist.memory-limit`` of Dask (bytes, or "2GiB") replaces all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from dkdist._utils._tuning import MIN_CHECKED_BYTES

PROC_DIR = Path("/proc/self")
LIMIT_KEY = "dkdist.memory-limit"
LIMIT_VARIABLE = "DASK_DKDIST__MEMORY_LIMIT"  # environment variable that sets LIMIT_KEY
RAISE_LIMIT = f"or run with a higher memory limit (dask.config {LIMIT_KEY!r} replaces the detected limit)"


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    with suppress(OSError):
        return int((PROC_DIR / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return int(psutil.Process().memory_info().rss)


def memory_limit() -> int:
    """Return the resident bytes that this process may reach: the smallest limit that applies to it."""
    configured = configured_limit()
    if configured is not None:
        return configured
    resident, machine = resident_bytes(), psutil.virtual_memory()
    limits = [machine.total, resident + machine.available, *_worker_limits()]
    limits += _address_space_limits(resident)
    for limit, unused in cgroup_limits(PROC_DIR):
        limits += [limit, resident + unused]
    return int(min(limits))


def free_bytes() -> int:
    """Return the bytes that this process may still allocate."""
    return max(0, memory_limit() - resident_bytes())


def may_allocate(n_bytes: int) -> bool:
    """Return whether ``n_bytes`` more may be allocated; small amounts are not checked."""
    return n_bytes < MIN_CHECKED_BYTES or n_bytes <= free_bytes()


def require_memory(n_bytes: int, what: str, remedy: str = "") -> None:
    """Raise MemoryError unless ``n_bytes`` more may be allocated.

    ``what`` begins the message, as in "reading the ids needs".
    """
    if not may_allocate(n_bytes):
        free = free_bytes()
        raise MemoryError(
            f"{what} {format_bytes(n_bytes)} of memory, but this process may allocate {format_bytes(free)} more. "
            f"To fix: {remedy + ', ' if remedy else ''}{RAISE_LIMIT}"
        )


def format_bytes(n: float) -> str:
    """Return a number of bytes for messages, such as 532 B, 1.4 MB or 20 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def cgroup_limits(proc: Path) -> list[tuple[int, int]]:
    """Return (limit, unused) bytes of every memory cgroup of the process, innermost first."""
    cgroups = []
    for folder, version in cgroup_folders(proc):
        names = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
        limits = [value for name in names if (value := _read_number(folder / name)) is not None]
        if not limits or min(limits) >= psutil.virtual_memory().total:
            continue
        used = _read_number(folder / ("memory.current" if version == 2 else "memory.usage_in_bytes")) or 0
        cached = _read_statistic(folder, "inactive_file" if version == 2 else "total_inactive_file")
        # the kernel can free cached pages, so they count as unused
        cgroups.append((min(limits), max(0, min(limits) - max(0, used - cached))))
    return cgroups


def cgroup_folders(proc: Path) -> Iterator[tuple[Path, int]]:
    """Yield (folder, version) of the memory cgroups of the process, innermost first, up to the mount point."""
    with suppress(OSError, ValueError, IndexError):
        paths = _cgroup_paths((proc / "cgroup").read_text())
        for line in (proc / "mountinfo").read_text().splitlines():
            mount, _, source = line.partition(" - ")
            kind, _, options = source.split(" ", 2)
            version = (
                2 if kind == "cgroup2" else 1 if kind == "cgroup" and "memory" in options.split(",") else 0
            )
            if version not in paths:
                continue
            root, top = (text.replace("\\040", " ") for text in mount.split()[3:5])
            path = PurePosixPath(paths[version])
            # without access to the path of the host, the cgroup of a container is the root of the mount
            relative = path.relative_to(root) if path.is_relative_to(root) else PurePosixPath()
            folder = Path(top) / relative
            while not folder.is_dir() and folder != Path(top):
                folder = folder.parent
            yield folder, version
            while folder != Path(top):
                folder = folder.parent
                yield folder, version


def _cgroup_paths(text: str) -> dict[int, str]:
    """Return the path of the process in the hierarchy of each cgroup version that can limit memory."""
    paths = {}
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            paths[1] = path
        elif number == "0" and not controllers:
            paths[2] = path
    return paths


def _read_number(path: Path) -> int | None:
    """Return the number in a file; None for "max" or an unreadable file."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _read_statistic(folder: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _address_space_limits(resident: int) -> list[int]:
    try:
        import resource
    except ImportError:  # not available on Windows
        return []
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return []
    return [resident + max(0, soft - int(psutil.Process().memory_info().vms))]


def _worker_limits() -> list[int]:
    """Return the limits of Dask workers in this process, without importing Dask."""
    worker: Any = getattr(sys.modules.get("distributed.worker"), "Worker", None)
    managers: list[Any] = [
        getattr(each, "memory_manager", None) for each in getattr(worker, "_instances", ())
    ]
    return [int(each.memory_limit) for each in managers if getattr(each, "memory_limit", None)]


def configured_limit() -> int | None:
    """Return the memory limit in Dask's configuration; None if it is not set or Dask is not imported."""
    dask: Any = sys.modules.get("dask")
    configured = None if dask is None else dask.config.get(LIMIT_KEY, None)
    return None if configured is None else int(dask.utils.parse_bytes(configured))
