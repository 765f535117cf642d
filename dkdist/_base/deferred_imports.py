"""Import of scikit-learn's base class without modules that it imports but does not use: half of its time."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

DEFERRED_MODULES = ("pandas", "scipy.stats")


class _DeferredModule(ModuleType):
    """Module that is imported when an attribute is first used."""

    def __getattr__(self, name: str) -> Any:
        _remove(self)
        return getattr(import_module(self.__name__), name)


def import_sklearn_base() -> None:
    """Import ``sklearn.base``; pandas and ``scipy.stats`` are imported when they are needed.

    Afterwards `sys.modules` holds none of the placeholders, so that other code imports the modules as usual.
    """
    if "sklearn.base" in sys.modules:
        return
    names = [name for name in DEFERRED_MODULES if name not in sys.modules and find_spec(name) is not None]
    placeholders = [_DeferredModule(name) for name in names]
    sys.modules.update(zip(names, placeholders, strict=True))
    try:
        import_module("sklearn.base")
    finally:
        for module in placeholders:
            _remove(module)


def _remove(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]
