"""Compilation of Numba functions: decorators, floating-point options, the code cache, and reports of compilation.

`jit` compiles functions that Python calls, `inline_jit` functions that only compiled functions call. The latter are
always inlined; otherwise the last bits of results could depend on the state of the cache.

Code is cached in ``NUMBA_CACHE_DIR``, by default below ``XDG_CACHE_HOME`` or ``~/.cache``, because an installed package
may be read-only. Code files have unique names: Numba numbers them, and two processes could write the same number.

Pass input arrays through `points.read_only`, so that read-only and writable arrays share one compiled
variant. Copy arrays element by element: array assignment also compiles the shape check, which takes seconds.

Floating-point options, from strict to fast:

    FMA             a multiplication and an addition may be fused; infinity and NaN keep their meaning
    FMA_REASSOC     FMA, and sums may be vectorized; supports infinity and NaN
    FINITE_FMA      FMA without infinities and NaN; the order of operations is kept, as range reductions require
    FINITE_REASSOC  FINITE_FMA, and sums may be vectorized, in a fixed order for a given processor
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

from dkdist._numba._numba_private import (
    Compiler,
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    JITCodeLibrary,
    UserWideCacheLocator,
    event,
)

SILENT_SECONDS = 0.5  # compilations that take less are not reported (tests/cli/test_compiling.py)


class CompileWatch:
    """Number of functions compiled by this process (not loaded from the cache), and the seconds spent."""

    def __init__(self) -> None:
        self.n_functions, self.seconds = 0, 0.0
        self._depth, self._started = 0, 0.0
        self._timer: threading.Timer | None = None
        self._callback: Callable[[], None] | None = None
        self._silent_seconds = 0.0

    def start(self) -> None:
        """Record the start of a compilation; nested compilations count as part of it."""
        self._depth += 1
        if self._depth == 1:
            self._started = time.perf_counter()
            if self._callback is not None:
                self._timer = threading.Timer(max(0.0, SILENT_SECONDS - self._silent_seconds), self._report)
                self._timer.daemon = True
                self._timer.start()

    def stop(self) -> None:
        """Record the end of a compilation, successful or not."""
        self._depth -= 1
        if self._depth == 0:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            seconds = time.perf_counter() - self._started
            self.n_functions, self.seconds = self.n_functions + 1, self.seconds + seconds
            self._silent_seconds += seconds

    @contextmanager
    def telling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` once if compilation inside the ``with`` block takes more than 0.5 s.

        Nested blocks do nothing.
        """
        if self._callback is not None:
            yield
            return
        self._callback, self._silent_seconds = callback, 0.0
        try:
            yield
        finally:
            self._callback = None

    def _report(self) -> None:
        callback = self._callback
        if callback is not None:  # no callback after the end of the block
            self._callback = _do_nothing
            callback()


def _do_nothing() -> None:
    """Replacement of the callback after its first call."""


COMPILE_WATCH = CompileWatch()


FMA = frozenset({"contract"})
FMA_REASSOC = FMA | {"reassoc", "nsz", "arcp"}
FINITE_FMA = FMA | {"nnan", "ninf", "nsz", "arcp"}
FINITE_REASSOC = FINITE_FMA | {"reassoc"}


def jit(fastmath: Set[str] = frozenset()) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function for calls from Python, without the GIL and with a cache."""

    def compiled(function: Any) -> Any:
        compile_function: Any = njit  # Numba's type hints lack some options
        options: dict[str, Any] = {"no_cfunc_wrapper": True, "pipeline_class": _WideVectorCompiler}
        dispatcher = compile_function(nogil=True, fastmath=set(fastmath), **options)(function)
        dispatcher._cache = CodeCache(function)  # replaces the cache that Numba creates for `cache=True`
        return dispatcher

    return compiled


def inline_jit(fastmath: Set[str] = frozenset(), *, early: bool = True) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function inline into compiled callers; Python cannot call it.

    With ``early=False`` it is optimized only inside its callers. That compiles faster; the last bits may differ,
    because LLVM may fuse other products and sums.
    """

    def compiled(function: Any) -> Any:
        options: dict[str, Any] = {"pipeline_class": _WideVectorCompiler if early else _InlinedCompiler}
        # omit wrappers for calls from Python and C
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        dispatcher: Any = njit(nogil=True, forceinline=True, fastmath=set(fastmath), **options)(function)
        overloads = dispatcher.overloads

        def raise_type_error(*args: Any) -> None:
            raise TypeError(f"{function.__name__} can only be called from compiled functions.")

        dispatcher._compile_for_args = raise_type_error
        dispatcher.add_overload = lambda result: overloads.update({tuple(result.signature.args): result})
        return dispatcher

    return compiled


class _WideVectorLibrary(JITCodeLibrary):
    """Code library that uses the longest vectors of the processor, up to 512 bits.

    LLVM prefers 256 bits on processors whose older models reduced the clock for 512 bits; float32 code then takes 1.3
    to 1.75 times as long.
    """

    def add_ir_module(self, module: Any) -> None:
        for function in module.functions:
            if not function.is_declaration:
                # llvmlite does not support this attribute
                set.add(function.attributes, '"prefer-vector-width"="512"')
        super().add_ir_module(module)  # type: ignore[no-untyped-call]


class _WideVectorCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        code: Any = _WideVectorLibrary(target.codegen(), "loop")  # type: ignore[no-untyped-call]
        code.enable_object_caching()
        super().__init__(typing, target, code, *others)  # type: ignore[no-untyped-call]


class _InlinedLibrary(JITCodeLibrary):
    """Code library of an inlined function, compiled to machine code only inside its callers."""

    def _optimize_final_module(self) -> None:
        """Do nothing; callers optimize the code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """Object with the method `set_env` that Numba expects."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing; there is no machine code."""


class _InlinedCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        super().__init__(typing, target, _InlinedLibrary(target.codegen(), "part"), *others)  # type: ignore[no-untyped-call]


def code_cache() -> tuple[str, bool]:
    """Return the cache folder of compiled code, and whether it is permanent."""
    requested: str = config.CACHE_DIR  # type: ignore[attr-defined]
    if not requested:
        return _user_cache()
    return (requested, True) if _is_trusted(requested, stat.S_IWOTH) else _private_cache()


def compiling_text() -> str:
    """Return the message shown during compilation."""
    if code_cache()[1]:
        return "compiling functions for this machine (once, usually 10 to 20 s)"
    return (
        "compiling functions for this process only (usually 10 to 20 s): no cache folder is writable and safe from "
        "other users. Set NUMBA_CACHE_DIR to a private folder to compile them once."
    )


@cache
def _user_cache() -> tuple[str, bool]:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "dkdist" / "numba"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK) and _is_trusted(folder, stat.S_IWOTH | stat.S_IWGRP)
    except OSError:
        usable = False
    return (str(folder), True) if usable else _private_cache()


@cache
def _private_cache() -> tuple[str, bool]:
    return tempfile.mkdtemp(prefix="dkdist-numba-"), False


def _is_trusted(folder: str | Path, writers: int) -> bool:
    """Return whether a folder belongs to this user or lacks the permission bits ``writers``; its code is executed."""
    try:
        status = os.stat(folder)
    except OSError:
        return True  # the folder is created by the first write
    return not hasattr(os, "getuid") or status.st_uid == os.getuid() or not status.st_mode & writers


class _CacheLocator(UserWideCacheLocator):
    def get_cache_path(self) -> str:
        subpath: str = self.get_suitable_cache_subpath(self._py_file)  # type: ignore[no-untyped-call]
        return os.path.join(code_cache()[0], subpath)


class _CacheContents(CompileResultCacheImpl):
    _locator_classes = [_CacheLocator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012


class CodeCacheFile(IndexDataCacheFile):
    """Cache index and code files of a function; file names are unique, so processes do not overwrite each other."""

    def _data_name(self, number: int) -> str:
        return f"{self._index_name}.{uuid.uuid4().hex}.nbc"

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call, no-any-return]
        except (AttributeError, ImportError):  # the file refers to types of another version of dkdist
            return {}


def source_digest(module: str) -> str:
    """Return a digest of a module and all modules of dkdist that it imports.

    Numba checks only the file of the function, but inlined functions are in other files.
    """
    digests, remaining = dict[str, str](), {module}
    while remaining:
        name = remaining.pop()
        if name.startswith("dkdist.") and name not in digests:
            digests[name], imported = _module_digest(name)
            remaining |= imported
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()


@cache
def _module_digest(module: str) -> tuple[str, frozenset[str]]:
    """Return a digest of a module's source, and the modules of dkdist that it imports."""
    text = Path(str(sys.modules[module].__file__)).read_bytes()
    return hashlib.sha256(text).hexdigest(), frozenset(map(bytes.decode, IMPORT_PATTERN.findall(text)))


IMPORT_PATTERN = re.compile(rb"^from (dkdist\.[\w.]+) import", re.MULTILINE)


class CodeCache(FunctionCache):
    """Cache of the code of one function."""

    _impl_class = _CacheContents

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = self._impl.locator.get_source_stamp(), source_digest(str(function.__module__))
        files: Any = CodeCacheFile  # Numba has no type hints
        self._cache_file = files(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the cached code for these types, or None."""
        was_enabled = pause_garbage_collection()
        try:
            return super().load_overload(signature, target)  # type: ignore[no-untyped-call]
        finally:
            resume_garbage_collection(was_enabled)


def pause_garbage_collection() -> bool:
    """Disable garbage collection; return whether it was enabled.

    Compilation creates many long-lived objects, for which the collector would repeatedly scan all objects.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    return was_enabled


def resume_garbage_collection(was_enabled: bool) -> None:
    """Enable garbage collection if it was enabled before the pause."""
    if was_enabled:
        gc.enable()


class _CompileListener(event.Listener):
    """Listener that counts compilations of functions with a `CodeCache`, including nested ones."""

    def __init__(self) -> None:
        self.was_enabled = list[bool]()

    def on_start(self, compile_event: Any) -> None:
        if _has_code_cache(compile_event):
            COMPILE_WATCH.start()
            self.was_enabled.append(pause_garbage_collection())

    def on_end(self, compile_event: Any) -> None:
        if _has_code_cache(compile_event):
            resume_garbage_collection(self.was_enabled.pop())
            COMPILE_WATCH.stop()


def _has_code_cache(compile_event: Any) -> bool:
    return isinstance(getattr(compile_event.data["dispatcher"], "_cache", None), CodeCache)


COMPILE_LISTENER = _CompileListener()
event.register("numba:compile", COMPILE_LISTENER)  # type: ignore[no-untyped-call]
