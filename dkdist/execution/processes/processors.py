"""Whether processes make the same last bits: which kernels their BLAS, compiled loops and NumPy chose for a processor.

One installation adds in another order on another processor: OpenBLAS, numba and NumPy each hold code for several and
take what suits the one they start on, or what environment variables say. So bits are promised on processors of one
kind, and a cluster is held to it: workers are asked before they get work (`versions`), and tasks carry the kind that
they were made for, so that workers which join late, come back at an old address or leave again are found out too.
"""

from __future__ import annotations

import hashlib
import os
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dask
from threadpoolctl import threadpool_info

from dkdist.execution.processes.process import RETURNS
from dkdist.plain.user_line import user_level

ALLOW = "dkdist.allow-mixed-processors"
MAX_PLACES = 3  # processes in a message

Kernels = Mapping[str, Sequence[str]]

TO_FIX = f"""To fix: take processors of one kind; or let all work like the least of them, by the environment in which
this process and every worker start, for x86
  OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=
  NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL AVX512_SPR'
or, where last bits may differ from run to run, set {ALLOW!r} to true in the Dask configuration of this
process before features are made"""


class MixedProcessorsError(ImportError):
    """Processes whose results have other last bits were to work together."""


@cache
def kernels() -> Kernels:
    """What decides last bits in this process, each in some words."""
    from numba import config
    from numba.core.registry import cpu_target
    from numpy._core import _multiarray_umath as umath  # type: ignore[attr-defined]

    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    used = [feature[1:] for feature in features.split(",") if feature.startswith("+")]
    svml = ["svml"] if config.USING_SVML else []  # type: ignore[attr-defined]
    return {
        "system": (platform.system(), platform.machine()),
        "BLAS": tuple(sorted(_blas())),
        "compiled loops": (name, *used, *svml),
        "NumPy": tuple(
            word for word in umath.__cpu_baseline__ + umath.__cpu_dispatch__ if umath.__cpu_features__[word]
        ),
    }


def _blas() -> set[str]:
    """The libraries that NumPy and SciPy brought with them, or all that are loaded where they brought none."""
    import scipy.linalg  # noqa: F401  its BLAS is another one
    from llvmlite.binding import get_host_cpu_name

    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    brought = [library for library in loaded if _folder(library).startswith(("numpy", "scipy"))]
    return {
        f"{library['internal_api']}-{library['version']}-{library.get('architecture') or get_host_cpu_name()}"
        for library in brought or loaded
    } or {f"unknown-{get_host_cpu_name()}"}


def _folder(library: Mapping[str, Any]) -> str:
    """``numpy.libs`` of wheels, ``numpy`` of those that have ``numpy/.dylibs``."""
    folder = Path(library["filepath"]).parent
    return folder.parent.name if folder.name.startswith(".") else folder.name


@cache
def kind() -> str:
    """The same in two processes if and only if their `kernels` are."""
    return hashlib.sha256(repr(sorted(kernels().items())).encode()).hexdigest()[:16]


def allowed() -> bool:
    """Whether ``dkdist.allow-mixed-processors`` says to go on with a warning."""
    found = dask.config.get(ALLOW, False)
    if not isinstance(found, bool):
        raise ValueError(f"{ALLOW!r} in Dask's configuration must be true or false; found {found!r}")
    return found


def require_alike(client: Kernels, kernels_by_process: Mapping[str, Kernels]) -> None:
    """Refuse processes whose kernels differ from the client's; warn if mixed processors are allowed."""
    table = differences(client, kernels_by_process)
    if not table:
        return
    if not allowed():
        raise MixedProcessorsError(
            "the cluster has processors of another kind than this client, whose results have other last bits, and got "
            f"no work:\n{table}\n{TO_FIX}"
        )
    warnings.warn(
        f"last bits of results may differ from run to run, since the cluster has processors of several kinds:\n{table}",
        RuntimeWarning,
        stacklevel=user_level(),
    )


def differences(client: Kernels, kernels_by_process: Mapping[str, Kernels]) -> str:
    """Return a line for each of the first few processes that differ from the client: what only one of the two has."""

    def only(words: Sequence[str], others: Sequence[str]) -> str:
        return " ".join(word for word in words if word not in others) or "nothing more"

    lines = []
    for address, process in kernels_by_process.items():
        topics = [topic for topic in client if set(client[topic]) != set(process[topic])]
        texts = [
            f"{t} {only(client[t], process[t])} here, {only(process[t], client[t])} there" for t in topics
        ]
        lines += [f"  {address}: {'; '.join(texts)}"] if texts else []
    more = [f"  and {len(lines) - MAX_PLACES} more"] if len(lines) > MAX_PLACES else []
    return "\n".join(lines[:MAX_PLACES] + more)


@dataclass(frozen=True)
class Alike:
    """A function of tasks that refuses to run on processors of another kind than it was made for.

    A worker gives memory back after it.
    """

    function: Callable[..., Any]
    kind: str

    def __call__(self, *args: Any) -> Any:
        """``function(*args)``."""
        if self.kind != kind():
            raise MixedProcessorsError(
                f"process {os.getpid()} of {platform.node()} received work that began on processors of another kind, "
                f"whose results have other last bits. It has {dict(kernels())}\n{TO_FIX}"
            )
        try:
            return self.function(*args)
        finally:
            RETURNS.look()


def alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, held to processors of this one's kind unless mixed ones are allowed."""
    return function if allowed() else Alike(function, kind())
