"""Public names of `dkdist.datasets`, imported on first use."""

from .cells import make_cells as make_cells
from .digits import load_digits_as_sets as load_digits_as_sets
from .mixtures import make_mixtures as make_mixtures
