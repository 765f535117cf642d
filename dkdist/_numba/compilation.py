"""How loops are compiled: one decorator for those that Python calls, one for those inside them, and where code is kept.

Compiled loops are kept in the user's own cache folder (``NUMBA_CACHE_DIR`` if it is set, else below
``XDG_CACHE_HOME`` or ``~/.cache``), because an installed package may be read-only. Where nothing can be written they
are compiled anew in each process. Processes and hosts may share the folder: numba writes whole files, and its index
tells CPUs apart. But it numbers the files of code, so that two processes that compile at once could both write number
1, and an index could name the code of other types or of an older source; here every file has a name of its own.
Code is made anew when the text of its loop has changed, or of anything that is compiled into it (`sources_of`).

Loops that other loops call are forced inline: as functions of their own they would be compiled once alone and once
within their caller, and which of the two runs, with other last bits, would depend on what is cached.

Arrays that loops only read are handed over read-only (`points.read_only`), so that one compiled variant serves those
that can be written too. And loops copy element by element: where an array is assigned to a part of another, what would
be said of unequal shapes is compiled along, for seconds.

Vectors are as long as the processor has them, where LLVM would take half of that (`_Wide`).

What a compiler may do with floating-point numbers, from nothing to most:

    FUSED        a multiplication and an addition become one; infinity and NaN keep their meaning
    LANES        FUSED, and sums go in lanes: for plain sums of numbers that may be infinite or NaN
    ELEMENTWISE  FUSED, and there are no infinities and no NaN; the order of operations stays, without which the
                 two-part constants of range reductions would be undone
    SUM          ELEMENTWISE, and sums go in lanes, in a fixed order for a given processor

Who is told that loops are compiled: a first use of some seconds of silence looks like one that hangs.

Nothing heavy is imported here, so that a command can ask to be told before numba is there; `loops.compile` reports.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import stat
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserWideCacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

PATIENCE = 0.5  # seconds of compiling that nobody is told of


class CompileWatch:
    """Counts the loops that this process really compiles, those that a cache gave left out, and the seconds of it."""

    def __init__(self) -> None:
        self.n_loops, self.seconds = 0, 0.0
        self._depth, self._started = 0, 0.0
        self._timer: threading.Timer | None = None
        self._say: Callable[[], None] | None = None
        self._untold = 0.0

    def begins(self) -> None:
        """A loop is compiled now; those that are inlined into it count as part of it."""
        self._depth += 1
        if self._depth == 1:
            self._started = time.perf_counter()
            if self._say is not None:
                self._timer = threading.Timer(max(0.0, PATIENCE - self._untold), self._tell)
                self._timer.daemon = True
                self._timer.start()

    def ends(self) -> None:
        """It is compiled, or could not be."""
        self._depth -= 1
        if self._depth == 0:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            seconds = time.perf_counter() - self._started
            self.n_loops, self.seconds = self.n_loops + 1, self.seconds + seconds
            self._untold += seconds

    @contextmanager
    def telling(self, say: Callable[[], None]) -> Iterator[None]:
        """Within it, ``say`` is called once if more than half a second goes into compiling, while that goes on.

        Where somebody is told already, nobody else is.
        """
        if self._say is not None:
            yield
            return
        self._say, self._untold = say, 0.0
        try:
            yield
        finally:
            self._say = None

    def _tell(self) -> None:
        say = self._say
        if say is not None:  # else what was compiled is done, and who asked is gone
            self._say = _nobody
            say()


def _nobody() -> None:
    """Who is told after the first time."""


WATCH = CompileWatch()
"""Of this process."""


FUSED = frozenset({"contract"})
LANES = FUSED | {"reassoc", "nsz", "arcp"}
ELEMENTWISE = FUSED | {"nnan", "ninf", "nsz", "arcp"}
SUM = ELEMENTWISE | {"reassoc"}


def loop(freedoms: Set[str] = frozenset()) -> Callable[[Any], Any]:
    """Compile a function that Python calls: it lets other threads run, and its code is kept."""

    def compiled(function: Any) -> Any:
        compiler: Any = njit  # numba's types do not know all that it takes
        how: dict[str, Any] = {"no_cfunc_wrapper": True, "pipeline_class": _WideCompiler}
        dispatcher = compiler(nogil=True, fastmath=set(freedoms), **how)(function)
        dispatcher._cache = LoopCache(function)  # as `cache=True` gives it numba's own
        return dispatcher

    return compiled


def inlined(freedoms: Set[str] = frozenset(), *, early: bool = True) -> Callable[[Any], Any]:
    """Compile a function into every loop that calls it; Python cannot call it.

    Where not ``early``, it is optimised as a part of these loops alone, not by itself before: that takes less time, and
    last bits may be others, since products may be fused with other sums.
    """

    def compiled(function: Any) -> Any:
        how: dict[str, Any] = {"pipeline_class": _WideCompiler if early else _PartCompiler}
        how |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # which would be code for other callers
        dispatcher: Any = njit(nogil=True, forceinline=True, fastmath=set(freedoms), **how)(function)
        known = dispatcher.overloads

        def refuse(*arguments: Any) -> None:
            raise TypeError(f"{function.__name__} is compiled into the loops that call it: call it in a loop")

        dispatcher._compile_for_args = refuse
        dispatcher.add_overload = lambda made: known.update({tuple(made.signature.args): made})
        return dispatcher

    return compiled


class _Wide(JITCodeLibrary):
    """Code with vectors as long as the processor has them, of up to 512 bits.

    LLVM takes half of that where the longest ones once slowed all else down; loops over float32 take a third to three
    quarters longer so.
    """

    def add_ir_module(self, module: Any) -> None:
        for function in module.functions:
            if not function.is_declaration:
                set.add(function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own does not know it
        super().add_ir_module(module)  # type: ignore[no-untyped-call]


class _WideCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        code: Any = _Wide(target.codegen(), "loop")  # type: ignore[no-untyped-call]
        code.enable_object_caching()
        super().__init__(typing, target, code, *others)  # type: ignore[no-untyped-call]


class _Part(JITCodeLibrary):
    """Code of a function that is inlined: it is optimised, and machine code is made of it, where it comes to stand."""

    def _optimize_final_module(self) -> None:
        """Not alone."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """What is told the addresses of machine code."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """There is no machine code."""


class _PartCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        super().__init__(typing, target, _Part(target.codegen(), "part"), *others)  # type: ignore[no-untyped-call]


def kept_code() -> tuple[str, bool]:
    """The folder where compiled loops are kept, and whether it outlives this process."""
    requested: str = config.CACHE_DIR  # type: ignore[attr-defined]
    if not requested:
        return _users_folder()
    return (requested, True) if _is_trusted(requested, stat.S_IWOTH) else _private_folder()


def compiling_text() -> str:
    """What people are told while loops are compiled."""
    if kept_code()[1]:
        return "compiling loops for this machine, once: 10 to 20 s as a rule"
    return (
        "compiling loops, 10 to 20 s as a rule, for this process alone: no cache folder is writable and safe from "
        "other users. Set NUMBA_CACHE_DIR to a folder of yours, and they are compiled once"
    )


@cache
def _users_folder() -> tuple[str, bool]:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "dkdist" / "numba"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK) and _is_trusted(folder, stat.S_IWOTH | stat.S_IWGRP)
    except OSError:
        usable = False
    return (str(folder), True) if usable else _private_folder()


@cache
def _private_folder() -> tuple[str, bool]:
    return tempfile.mkdtemp(prefix="dkdist-numba-"), False


def _is_trusted(folder: str | Path, writers: int) -> bool:
    """Whether a folder is this user's, or closed to the ``writers`` (mode bits); cached code runs when it is loaded."""
    try:
        found = os.stat(folder)
    except OSError:
        return True  # it is made when code is written
    return not hasattr(os, "getuid") or found.st_uid == os.getuid() or not found.st_mode & writers


class _Folder(UserWideCacheLocator):
    def get_cache_path(self) -> str:
        within: str = self.get_suitable_cache_subpath(self._py_file)  # type: ignore[no-untyped-call]
        return os.path.join(kept_code()[0], within)


class _Contents(CompileResultCacheImpl):
    _locator_classes = [_Folder, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012


class CodeFiles(IndexDataCacheFile):
    """The files of a loop's code, each with a name of its own, and the index of them."""

    def _data_name(self, number: int) -> str:
        return f"{self._index_name}.{uuid.uuid4().hex}.nbc"

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call, no-any-return]
        except (AttributeError, ImportError):  # types of another version of dkdist, which no longer exist
            return {}


def sources_of(module: str) -> str:
    """What tells apart all texts of ours that a module consists of, by what it imports: it changes with any of them.

    Numba looks at a loop's own file alone, but what is compiled into the loop stands in others.
    """
    found, left = dict[str, str](), {module}
    while left:
        name = left.pop()
        if name.startswith("dkdist.") and name not in found:
            found[name], imported = _source(name)
            left |= imported
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


@cache
def _source(module: str) -> tuple[str, frozenset[str]]:
    """A digest of a module's text, and the modules of ours that it imports."""
    text = Path(str(sys.modules[module].__file__)).read_bytes()
    return hashlib.sha256(text).hexdigest(), frozenset(map(bytes.decode, IMPORTED.findall(text)))


IMPORTED = re.compile(rb"^from (dkdist\.[\w.]+) import", re.MULTILINE)


class LoopCache(FunctionCache):
    """Where the code of one loop is kept; other functions of the process keep numba's own class."""

    _impl_class = _Contents

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = self._impl.locator.get_source_stamp(), sources_of(str(function.__module__))
        files: Any = CodeFiles  # numba has no types
        self._cache_file = files(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The code that is kept for these types, or None."""
        collecting = pause_collection()
        try:
            return super().load_overload(signature, target)  # type: ignore[no-untyped-call]
        finally:
            resume_collection(collecting)


def pause_collection() -> bool:
    """No search for unreachable objects, and whether there was any before.

    A compiler makes so many objects that all there are, those of large libraries too, would be gone through several
    times; it keeps most of them.
    """
    collecting = gc.isenabled()
    gc.disable()
    return collecting


def resume_collection(collecting: bool) -> None:
    """What `pause_collection` found."""
    if collecting:
        gc.enable()


class _Reports(event.Listener):
    """Reports each loop of ours that no cache had; numba tells of no others, of one thread at a time, and of loops
    within loops."""

    def __init__(self) -> None:
        self.collecting = list[bool]()

    def on_start(self, told: Any) -> None:
        if _is_ours(told):
            WATCH.begins()
            self.collecting.append(pause_collection())

    def on_end(self, told: Any) -> None:
        if _is_ours(told):
            resume_collection(self.collecting.pop())
            WATCH.ends()


def _is_ours(told: Any) -> bool:
    return isinstance(getattr(told.data["dispatcher"], "_cache", None), LoopCache)


REPORTS = _Reports()
event.register("numba:compile", REPORTS)  # type: ignore[no-untyped-call]
