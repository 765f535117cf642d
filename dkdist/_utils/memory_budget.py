"""Memory that this process may use: the smallest of all limits that apply to it.

Every limit is converted to resident bytes of this process, so that limits of different kinds compare:

    memory cgroups (v1 and v2)   of the process's own path and all groups above it: the limit, and what is left of it
    RLIMIT_AS                    counts mapped addresses, of which a part is resident: what is left of it counts
    a Dask worker                the limit of its own process memory
    the machine                  what is available now

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

PROC = Path("/proc/self")
SETTING = "dkdist.memory-limit"
SETTING_VARIABLE = "DASK_DKDIST__MEMORY_LIMIT"  # by which a shell sets it
RAISE_LIMIT = f"or run where more memory may be used (dask.config {SETTING!r} replaces the detected limit)"


def resident_bytes() -> int:
    """Bytes of memory that this process holds now."""
    with suppress(OSError):
        return int((PROC / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return int(psutil.Process().memory_info().rss)


def memory_limit() -> int:
    """Resident bytes that this process may reach: the smallest limit that applies to it."""
    configured = configured_limit()
    if configured is not None:
        return configured
    resident, machine = resident_bytes(), psutil.virtual_memory()
    limits = [machine.total, resident + machine.available, *_worker_limits()]
    limits += _address_space_limits(resident)
    for limit, unused in cgroup_limits(PROC):
        limits += [limit, resident + unused]
    return int(min(limits))


def free_bytes() -> int:
    """Bytes that this process may still allocate."""
    return max(0, memory_limit() - resident_bytes())


def may_allocate(n_bytes: int) -> bool:
    """Whether so many more bytes fit; small amounts pass unchecked."""
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
    """A number of bytes for messages: 532 B, 1.4 MB, 20 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def cgroup_limits(proc: Path) -> list[tuple[int, int]]:
    """(limit, unused) bytes of every memory cgroup that holds the process, innermost first; [] where there is none."""
    found = []
    for folder, version in cgroup_folders(proc):
        names = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
        limits = [value for name in names if (value := _number_in(folder / name)) is not None]
        if not limits or min(limits) >= psutil.virtual_memory().total:
            continue
        used = _number_in(folder / ("memory.current" if version == 2 else "memory.usage_in_bytes")) or 0
        cached = _statistic(folder, "inactive_file" if version == 2 else "total_inactive_file")
        found.append(
            (min(limits), max(0, min(limits) - max(0, used - cached)))
        )  # the kernel drops cached pages
    return found


def cgroup_folders(proc: Path) -> Iterator[tuple[Path, int]]:
    """(folder, version) of the process's memory cgroups, from its own up to the root of the mount."""
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
            own = PurePosixPath(paths[version])
            # in a container the host's path may be unknown below the mount: its root is the container's group
            below = own.relative_to(root) if own.is_relative_to(root) else PurePosixPath()
            folder = Path(top) / below
            while not folder.is_dir() and folder != Path(top):
                folder = folder.parent
            yield folder, version
            while folder != Path(top):
                folder = folder.parent
                yield folder, version


def _cgroup_paths(text: str) -> dict[int, str]:
    """The process's path in the hierarchy of each cgroup version that may limit memory."""
    paths = {}
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            paths[1] = path
        elif number == "0" and not controllers:
            paths[2] = path
    return paths


def _number_in(path: Path) -> int | None:
    """The number in a file; None for "max", or where it cannot be read."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _statistic(folder: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _address_space_limits(resident: int) -> list[int]:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return []
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return []
    return [resident + max(0, soft - int(psutil.Process().memory_info().vms))]


def _worker_limits() -> list[int]:
    """Limits of Dask workers in this process; Dask is not imported for it."""
    worker: Any = getattr(sys.modules.get("distributed.worker"), "Worker", None)
    managers: list[Any] = [
        getattr(each, "memory_manager", None) for each in getattr(worker, "_instances", ())
    ]
    return [int(each.memory_limit) for each in managers if getattr(each, "memory_limit", None)]


def configured_limit() -> int | None:
    """The limit set by the user in Dask's configuration, if any; Dask need not be imported for it to be unset."""
    dask: Any = sys.modules.get("dask")
    configured = None if dask is None else dask.config.get(SETTING, None)
    return None if configured is None else int(dask.utils.parse_bytes(configured))
