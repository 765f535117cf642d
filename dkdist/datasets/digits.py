"""`load_digits_as_sets`: the digits of scikit-learn as sets of weighted points."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from dkdist._numba.arrays import I64
from dkdist.sets import SampleSets

IMAGE_SIDE_PIXELS = 8  # size of the images of sklearn.datasets.load_digits (tests/datasets/test_datasets.py)


def load_digits_as_sets() -> tuple[SampleSets, I64]:
    """Load handwritten digits as sets of weighted points in the unit square.

    Each of 1,797 images of 8 x 8 pixels becomes the set of the centres of its inked pixels, weighted by their ink.
    The images are part of scikit-learn; nothing is downloaded.

    Returns
    -------
    sets : SampleSets
        1,797 sets of 16 to 42 points (x, y) in the unit square, x to the right and y up, with weights from 1 to 16.
    y : (1797,) int64 array
        The digits, 0 to 9.

    Notes
    -----
    Cost: 0.1 s, 1 MB.

    References
    ----------
    Alpaydin, Kaynak: Optical recognition of handwritten digits, UCI machine learning repository (1998).

    Examples
    --------
    >>> import dkdist as dk
    >>> sets, y = dk.datasets.load_digits_as_sets()
    >>> len(sets), sets.n_dims, y[:5].tolist()
    (1797, 2, [0, 1, 2, 3, 4])
    >>> sets[0].shape, sets.weights_of(0).max()
    ((35, 2), np.float32(15.0))
    """
    images, labels = load_digits(return_X_y=True)
    side = (np.arange(IMAGE_SIDE_PIXELS) + 0.5) / IMAGE_SIDE_PIXELS  # pixel centres
    centres = np.stack(np.meshgrid(side, side[::-1]), axis=-1).reshape(IMAGE_SIDE_PIXELS**2, 2)
    inked = images > 0
    sets = SampleSets.from_arrays([centres[mask] for mask in inked], [v[v > 0] for v in images])
    return sets, labels.astype(np.int64)
