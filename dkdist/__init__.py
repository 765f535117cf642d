"""Learning from distributions: classifiers, regressors, kernels and distances over collections of sample sets.

Names are imported when they are first used, so that ``import dkdist`` and the command line answer at once.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
