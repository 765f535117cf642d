"""Figures of sets, collections, distances and models, drawn with matplotlib.

Every function draws on ``ax``, by default on new Axes, and returns them (several as a Figure). No function shows or
saves a figure, or changes settings of matplotlib.
"""

from importlib.util import find_spec
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ and find_spec("matplotlib") is None:
        raise ImportError(f"dkdist.plot.{name} needs matplotlib: pip install 'dkdist[plots]'")
    return _load(name)
