"""`SetColumns`: targets of sets (age, site) as feature columns, to combine with embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.inputs import Sets, SetsInMemory, SetsLike, check_sets
from dkdist._base.row_ids import apply_set_output, attach_index, check_index_alignment
from dkdist._numba.arrays import Array


class SetColumns(TransformerMixin, BaseEstimator):
    """Select targets of sets, such as age or site, as feature columns to combine with an embedding in a union.

    Parameters
    ----------
    columns : str or list of str
        Names of targets (`SampleSets.targets`, `SetStore.targets`) with one number, boolean or string per set.

    Attributes
    ----------
    feature_names_in_ : (k,) array of str
        Names of the columns.
    n_features_in_ : int
        Number of columns k.
    numeric_ : bool
        Whether all columns are numeric.

    Raises
    ------
    ValueError
        For columns that are not targets of the sets, that have several values per set, or that are text but were
        numeric in `fit`.

    Notes
    -----
    `transform` gives a NumPy array (n, k), also for a `SetStore`: float64 if all columns are numeric, otherwise Python
    objects for a ``OneHotEncoder``. A union with the lazy rows of an embedding is a lazy array.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from sklearn.pipeline import make_pipeline, make_union
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> arrays = [rng.normal(size=(30, 1)) for _ in range(10)]
    >>> sets = dk.SampleSets.from_arrays(arrays, targets={"age": np.arange(50, 60)})
    >>> dk.SetColumns("age").fit_transform(sets)[:2]
    array([[50.],
           [51.]])
    >>> union = make_union(dk.MomentEmbedding(2), make_pipeline(dk.SetColumns(["age"]), StandardScaler()))
    >>> union.fit_transform(sets).shape
    (10, 3)
    """

    def __init__(self, columns: Any) -> None:
        self.columns = columns

    def fit(self, X: SetsLike, y: Any = None) -> SetColumns:
        """Check that the sets X have the columns, and whether they are numeric. ``y`` is ignored."""
        names = [self.columns] if isinstance(self.columns, str) else list(self.columns)
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"columns must be a target name or a nonempty list of target names; got {self.columns!r}"
            )
        columns = _columns(check_sets(X, text=True), names)
        self.numeric_ = all(values.dtype.kind in "biuf" for values in columns)
        self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        return self

    def transform(self, X: Sets | SetsInMemory) -> NDArray[Any]:
        """Return the columns of the sets X: (n, k) float64, or objects if a column is text."""
        check_is_fitted(self)
        names = self.feature_names_in_.tolist()
        columns = _columns(check_sets(X, text=True), names)
        for name, values in zip(names, columns, strict=True):
            if self.numeric_ and values.dtype.kind not in "biuf":
                raise ValueError(
                    f"column {name!r} must be numeric, as in fit; got text. Pass numbers or fit again."
                )
        dtype = np.float64 if self.numeric_ else object
        rows = np.stack([values.astype(dtype) for values in columns], axis=1)
        result: NDArray[Any] = apply_set_output(self, attach_index(rows, X))
        return result

    def fit_transform(self, X: Sets | SetsInMemory, y: Any = None, **params: Any) -> NDArray[Any]:
        """Fit and return the columns of the sets X; ``y`` in another order is handled as in embeddings."""
        result: NDArray[Any] = check_index_alignment(super().fit_transform(X, y, **params), X, y)
        return result

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names (k,) of the columns."""
        check_is_fitted(self)
        return self.feature_names_in_.copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _columns(sets: Sets, names: list[str]) -> list[Array]:
    targets, columns = sets.targets, []
    for name in names:
        if name not in targets:
            raise ValueError(
                f"columns must be targets of the sets, {list(targets)}; got {name!r}. Add targets with from_frame, "
                "labelled or write_sets."
            )
        values = np.asarray(targets[name])
        if values.ndim != 1:
            raise ValueError(
                f"targets {name!r} must have 1 number per set; got {values.shape[1]}. Give each column its own name."
            )
        columns.append(values)
    return columns
