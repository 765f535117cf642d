"""Learning from distributions: classifiers, regressors, kernels and distances over collections of sample sets.

Names are imported when they are first used, so that ``import dkdist`` and the command line answer at once.
"""

import sys

import lazy_loader

__version__ = "0.2.0.dev0"

_lazy_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name):
    loaded = set(sys.modules)
    try:
        return _lazy_getattr(name)
    except BaseException:
        # Python removes a package whose import failed, but keeps its submodules: a second import would
        # not bind them to the new package ("module 'dask' has no attribute 'utils'")
        for module in sys.modules.keys() - loaded:
            if not _parents(module) <= sys.modules.keys():
                del sys.modules[module]
        raise


def _parents(module):
    parts = module.split(".")
    return {".".join(parts[:i]) for i in range(1, len(parts))}
