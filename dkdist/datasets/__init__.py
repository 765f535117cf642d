"""Sample sets to learn with: bundled digits as sets of ink, and simulated mixtures and cells of donors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
