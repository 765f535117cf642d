"""Hashes of the content of sets, which do not depend on the order of points, files or chunks."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from dkdist._base.inputs import Sets, map_set_blocks
from dkdist.sets import SampleSets

DIGEST_BYTES = 16  # BLAKE2b; 2^64 sets have two equal hashes by chance (birthday bound)


def set_digests(sets: Sets) -> NDArray[np.bytes_]:
    """Return hexadecimal hashes (n,), equal for sets with the same points and weights in any order.

    Points are float32 relative to the origin of the collection. A store is read block by block.
    """
    return np.concatenate(map_set_blocks(_digests, sets, "hashes of sets"))


def data_fingerprint(sets: Sets) -> str:
    """Return a hash of all sets in their order."""
    return hashlib.blake2b(set_digests(sets).tobytes(), digest_size=DIGEST_BYTES).hexdigest()


def _digests(sets: Sets, first: int) -> NDArray[np.bytes_]:
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone(first)
    digests = []
    for i in range(len(loaded)):
        points, weights = loaded.relative[loaded.offsets[i] : loaded.offsets[i + 1]], loaded.weights_of(i)
        columns = points if weights is None else np.column_stack([points, weights])
        ordered = columns[np.lexsort(columns.T)] + 0  # -0 becomes 0
        digests.append(hashlib.blake2b(ordered.tobytes(), digest_size=DIGEST_BYTES).hexdigest())
    return np.array(digests, np.bytes_)
