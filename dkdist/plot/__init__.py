"""Pictures of sets, of collections, of distances and of what a model does; drawn with matplotlib.

Every function draws on ``ax`` if it is given, makes axes of its own if not, and returns them (a Figure where it drew
several); none shows, saves, or changes a setting of matplotlib.
"""

from importlib.util import find_spec
from typing import Any

import lazy_loader

_drawn_by, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ and find_spec("matplotlib") is None:
        raise ImportError(f"dkdist.plot.{name} draws with matplotlib: pip install 'dkdist[plots]'")
    return _drawn_by(name)
