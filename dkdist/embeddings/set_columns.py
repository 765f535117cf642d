"""`SetColumns`: what is known of sets beside their points (age, site) as columns, to stand beside an embedding's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.inputs import Sets, check_sets
from dkdist._base.row_ids import apply_set_output, attach_index, check_index_alignment
from dkdist._numba.arrays import Array


class SetColumns(TransformerMixin, BaseEstimator):
    """Take columns of the targets of sets as features: an age or a site beside an embedding, in a union.

    Parameters
    ----------
    columns : str or list of str
        Names of targets of the sets (`SampleSets.targets`, `SetStore.targets`), one number, boolean or text a set.

    Attributes
    ----------
    feature_names_in_ : (k,) array of str
        The columns.
    n_features_in_ : int
        Their number k.
    numeric_ : bool
        Whether all of them are numbers, or text is among them.

    Raises
    ------
    ValueError
        For columns that are no targets of the sets (those there are are named), have several numbers a set, or are
        text where they were numbers in `fit`.

    Notes
    -----
    `transform` gives a NumPy array (n, k), for a `SetStore` too: float64 if all columns are numbers, else Python
    objects for a ``OneHotEncoder``. Beside the lazy rows of an embedding, in a union, it becomes part of a lazy array.
    Cost: reading the columns.

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

    def fit(self, X: Any, y: Any = None) -> SetColumns:
        """See whether the sets X have the columns, and whether these are numbers. ``y`` is not used."""
        names = [self.columns] if isinstance(self.columns, str) else list(self.columns)
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f"columns must name one target or more; found {self.columns!r}")
        found = _columns(check_sets(X, text=True), names)
        self.numeric_ = all(values.dtype.kind in "biuf" for values in found)
        self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        return self

    def transform(self, X: Any) -> Any:
        """The columns of the sets X: (n, k) float64, or objects if text is among them."""
        check_is_fitted(self)
        names = self.feature_names_in_.tolist()
        found = _columns(check_sets(X, text=True), names)
        for name, values in zip(names, found, strict=True):
            if self.numeric_ and values.dtype.kind not in "biuf":
                raise ValueError(
                    f"column {name!r} is text, and was numbers in fit: give numbers, or fit again"
                )
        dtype = np.float64 if self.numeric_ else object
        rows = np.stack([values.astype(dtype) for values in found], axis=1)
        return apply_set_output(self, attach_index(rows, X))

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """The columns of the sets X of ``fit``; beside targets in another order as an embedding's rows are."""
        return check_index_alignment(super().fit_transform(X, y, **params), X, y)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """(k,) the names of the columns."""
        check_is_fitted(self)
        return self.feature_names_in_.copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _columns(sets: Sets, names: list[str]) -> list[Array]:
    """The columns by name, each one entry a set."""
    targets, found = sets.targets, []
    for name in names:
        if name not in targets:
            raise ValueError(
                f"the sets have no targets {name!r}; they have {list(targets)}: give them to from_frame, labelled or "
                "write_sets"
            )
        values = np.asarray(targets[name])
        if values.ndim != 1:
            raise ValueError(
                f"targets {name!r} have {values.shape[1]} numbers a set: give each a name of its own"
            )
        found.append(values)
    return found
