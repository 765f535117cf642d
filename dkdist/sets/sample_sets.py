"""Sample sets in memory: `SampleSets`, its constructors from frames, and its HTML summary.

A data point is a *set* of n_i points in R^d, a sample of a distribution p_i (a bag of features, a time series, the
code points of a string). N sets are one array of points, T = n_1 + ... + n_N rows, and offsets o with

    set i = points[o_i : o_(i+1)],    o_0 = 0,    o_N = T.

Constructors validate everything once; slices of a valid collection are valid and skip the checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import column_bounds, read_only
from dkdist._utils.text import column_text, key_value_table, numbers_text, sizes_text
from dkdist.sets.exports import ExportsMixin
from dkdist.sets.indexing import NoArrayConversion, align_mask, as_position, positions, resolve_key
from dkdist.sets.labels import NO_LABELS, Labels, LabelsMixin
from dkdist.sets.origins import normalize_origin, origin_text, translate
from dkdist.sets.point_checks import (
    Points,
    SampleSetError,
    as_offsets,
    as_parts,
    as_points,
    as_weights,
    column_names,
    concatenate_weights,
    convert_points,
    offsets_of,
    require_codes,
    require_finite,
)
from dkdist.sets.strings import as_alphabet, decode, encode

if TYPE_CHECKING:
    from dkdist.sets.frames import SetParts


# One pass over 10^8 coordinates takes about 0.1 s; larger collections are summarized without bounds
# (tests/files/test_notebook_tables.py).
MAX_BOUNDS_VALUES = 10**8
MAX_SHOWN_SYMBOLS = 60  # half a line of an HTML table (tests/files/test_notebook_tables.py)


def format_sets_html(sets: SampleSets) -> str:
    """Return an HTML table of a collection; bounds cost one pass over the points."""
    weights, names, ids = sets.weights, sets.names, sets.ids
    pairs: list[tuple[object, object]] = [
        ("sets", f"{len(sets):,}"),
        ("points", f"{sets.n_points:,}"),
        ("points per set", sizes_text(sets.sizes)),
        ("dimensions", sets.n_dims if names is None else f"{sets.n_dims}: {', '.join(names)}"),
        ("dtype", sets.points_dtype),
    ]
    if sets.alphabet is not None:
        more = "..." if len(sets.alphabet) > MAX_SHOWN_SYMBOLS else ""
        pairs.append(("alphabet", f"{len(sets.alphabet)}: {sets.alphabet[:MAX_SHOWN_SYMBOLS]}{more}"))
    elif 0 < sets.relative.size <= MAX_BOUNDS_VALUES:
        low, high = sets.bounds
        pairs += [("lowest", numbers_text(low)), ("highest", numbers_text(high))]
    if sets.origin.any():
        pairs.append(("origin", numbers_text(sets.origin)))
    if weights is not None:
        pairs.append(("weights", weights_text(weights.shape[1:])))
    if ids is not None:
        pairs.append(("ids", column_text(ids)))
    pairs += [(f"target {name!r}", column_text(values)) for name, values in sets.targets.items()]
    return key_value_table("SampleSets", pairs)


def weights_text(shape: tuple[int, ...] | None) -> str:
    """Describe point weights by the shape of one point's weight (None: no weights)."""
    if shape is None:
        return "none"
    return f"{shape[0]} per point" if shape else "one per point"


class FrameConstructors:
    """Constructors from data frames with one row per point."""

    __slots__ = ()

    @classmethod
    def _of_parts(cls, parts: SetParts) -> Self:
        """Make sets from the content of a frame, with all checks."""
        raise NotImplementedError

    @classmethod
    def from_frame(
        cls, frame: Any, set_id: str, points: Any = None, targets: Any = None, weights: str | None = None
    ) -> Self:
        """Make sets from a data frame (pandas, polars or pyarrow) with one row per point.

        Rows may have any order. Sets are ordered by the first row of their id; the rows of a set keep their order.
        Requires narwhals and pandas (``pip install 'dkdist[frames]'``).

        Parameters
        ----------
        frame : data frame
            In memory. For a Dask DataFrame use `import_frame`, which writes a store.
        set_id : str
            The column of ids, integers or text (which stays text: "007").
        points : names of columns, optional
            The coordinates, in this order; by default all numeric or boolean columns without another role. A warning
            lists the omitted columns, including row counters ("Unnamed: 0"); the selected columns are logged
            (``dkdist.importing``, level INFO).
        targets : data frame, Series or names of columns, optional
            Entries for each id, joined by the index (pandas) or by a column named as ``set_id``, in any order; or
            columns of ``frame`` that are constant within each set.
        weights : str, optional
            The column of point weights.

        Raises
        ------
        SampleSetError
            For missing ids or values, text or categories as coordinates, and targets that change within a set, lack
            an id or contain one twice. The message names column, row and set.

        Notes
        -----
        Cost: one sort of the rows and a second copy of the points.

        Examples
        --------
        >>> import pandas as pd
        >>> from dkdist.sets import SampleSets
        >>> cells = pd.DataFrame({"donor": ["b", "a", "b"], "cd3": [1.0, 2.0, 3.0], "cd4": [4.0, 5.0, 6.0]})
        >>> outcome = pd.Series([0, 1], index=["a", "b"], name="outcome")
        >>> sets = SampleSets.from_frame(cells, "donor", targets=outcome)
        >>> sets.ids, sets.names, sets.targets["outcome"], sets[0][:, 0]
        (array(['b', 'a'], dtype='<U1'), ('cd3', 'cd4'), array([1, 0]), array([1., 3.], dtype=float32))
        """
        from dkdist.sets.frames import parts_from_frame

        return cls._of_parts(parts_from_frame(frame, set_id, points, targets, weights))

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        set_key: str,
        obsm: str | None = None,
        layer: str | None = None,
        columns: Any = None,
        targets: Any = None,
    ) -> Self:
        """Make sets from annotated data (AnnData or a compatible object), one point per observation.

        Parameters
        ----------
        adata : AnnData
        set_key : str
            The column of ``adata.obs`` with ids, such as the donor of each cell.
        obsm, layer : str, optional
            The matrix of points: ``adata.obsm[obsm]`` ("X_pca"), ``adata.layers[layer]``, or ``adata.X``.
        columns : names, optional
            Columns of the matrix. Only these columns of a sparse matrix become dense; without ``columns`` a sparse
            matrix may have at most 1,000 columns.
        targets : data frame, Series or names of columns of ``adata.obs``, optional
            As for `from_frame`.

        Raises
        ------
        SampleSetError
            As `from_frame`.

        Notes
        -----
        Cost: one sort of the observations and a dense copy of the selected columns.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from dkdist.sets import SampleSets
        >>> from types import SimpleNamespace
        >>> obs = pd.DataFrame({"donor": ["b", "a", "b"], "age": [50, 60, 50]})
        >>> adata = SimpleNamespace(obs=obs, obsm={"X_pca": np.eye(3)}, layers={}, X=None, var_names=[])
        >>> sets = SampleSets.from_anndata(adata, "donor", obsm="X_pca", targets="age")
        >>> sets.sizes, sets.names[:2], sets.targets["age"]
        (array([2, 1]), ('X_pca_0', 'X_pca_1'), array([50, 60]))
        """
        from dkdist.sets.annotated import parts_from_anndata

        return cls._of_parts(parts_from_anndata(adata, set_key, obsm, layer, columns, targets))


A = TypeVar("A", bound=NDArray[Any])


class SampleSets(LabelsMixin, FrameConstructors, ExportsMixin, NoArrayConversion):
    """An immutable collection of N sample sets, with optional point weights, in memory.

    Parameters
    ----------
    points : (T, d) array, or (T,) for d = 1
        All points, set after set; stored as C-contiguous float32, relative to an `origin` where float32 is too
        coarse for their differences. uint8 and uint16 codes with d = 1 keep their dtype.
    offsets : (N + 1,) integer array
        Set i is ``points[offsets[i]:offsets[i + 1]]``; starts at 0, strictly increases, ends at T.
    weights : (T,) or (T, k) array, optional
        One weight (or k signed channels) per point, float32. Any finite value is valid; embeddings that need
        nonnegative weights check them.
    alphabet : str, optional
        The characters of string codes: code k is ``alphabet[k]``.
    origin : (d,) array, optional
        Offsets that are subtracted from the points before they are stored. By default 0 for a column that float32
        represents exactly, and a round number near the median of a column that is far from zero relative to its
        spread (map coordinates in metres, times in seconds since 1970).

    Raises
    ------
    SampleSetError
        For an empty set, NaN or infinite points or weights (or values that overflow float32), offsets that
        are not monotone or do not cover the points, weights of the wrong length, and codes beyond the alphabet.

    Notes
    -----
    The constructor makes one vectorized pass over the points, and no copy of C-contiguous float32 arrays (their
    origin is 0). Returned arrays are read-only. Points, bounds and sets are true coordinates: float32 if the origin is
    0, else float64, computed at each access. Selections keep the origin and, if any, `ids`, `targets` and `names` of
    dimensions (see `labelled`). A warning names a column that float32 cannot represent even relative to its origin.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist.sets import SampleSets
    >>> sets = SampleSets(np.arange(10.0).reshape(5, 2), [0, 2, 5])
    >>> sets
    SampleSets(n_sets=2, n_points=5, n_dims=2)
    >>> sets[1].shape, sets.sizes.tolist(), sets[-1:].n_points
    ((3, 2), [2, 3], 3)
    >>> far = SampleSets([[1e9 + 0.25], [1e9 + 1.75]], [0, 2])
    >>> far.origin, far[0].ravel() - 1e9, far.points.dtype
    (array([1.e+09]), array([0.25, 1.75]), dtype('float64'))
    """

    __slots__ = ("__weakref__", "_alphabet", "_labels", "_offsets", "_origin", "_points", "_weights")

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        weights: ArrayLike | None = None,
        alphabet: str | None = None,
        origin: ArrayLike | None = None,
    ) -> None:
        rows, start = convert_points([as_points(points)], origin, copy=False)
        edges = as_offsets(offsets, len(rows))
        require_finite(rows, edges)
        if alphabet is not None:
            require_codes(rows, edges, as_alphabet(alphabet))
        self._set(rows, edges, None if weights is None else as_weights(weights, edges), alphabet, start)

    @classmethod
    def from_arrays(
        cls,
        arrays: Sequence[ArrayLike],
        weights: Sequence[ArrayLike] | None = None,
        origin: ArrayLike | None = None,
        *,
        ids: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        targets: Any = None,
    ) -> SampleSets:
        """Make sets from a list of (n_i, d) arrays and an optional list of (n_i,) or (n_i, k) weights.

        Arrays (n_i,) are one column. ``origin`` as for the constructor; ``ids``, ``names`` and ``targets`` as for
        `labelled`. The columns of data frames become the names of the dimensions.

        Raises
        ------
        SampleSetError
            As the constructor; also for duplicate ids, different numbers of dimensions, and data frames with
            different columns.

        Examples
        --------
        >>> SampleSets.from_arrays([np.zeros((3, 2)), np.ones((1, 2))]).sizes.tolist()
        [3, 1]
        """
        parts = as_parts(arrays)
        edges = offsets_of(parts)
        rows, start = convert_points(parts, origin)
        require_finite(rows, edges)
        point_weights = None if weights is None else concatenate_weights(weights, parts, edges)
        dimension_names = column_names(arrays) if names is None else names
        labels = Labels.of(ids, dimension_names, targets, (len(parts), rows.shape[1]))
        return cls._trusted(rows, edges, point_weights, None, start, labels)

    @classmethod
    def from_strings(cls, strings: Sequence[Any], alphabet: str | None = None) -> SampleSets:
        """Make sets from a list of str, of bytes, or of flat sequences of integers.

        The points are codes (uint8 or uint16, d = 1) in the order of the text. Codes of str are positions in the
        ``alphabet``; characters that it lacks are appended in sorted order. Bytes and integers below 65,536 are
        used as codes unchanged.

        Raises
        ------
        SampleSetError
            For an empty string, strings of different types, other numbers, and more than 65,536 distinct characters.

        Examples
        --------
        >>> sets = SampleSets.from_strings(["GATTACA", "CAT"])
        >>> sets, sets.alphabet, sets.strings()
        (SampleSets(n_sets=2, n_points=10, n_dims=1, codes=uint8, alphabet=4), 'ACGT', ['GATTACA', 'CAT'])
        """
        codes, edges, full_alphabet = encode(strings, alphabet)
        return cls._trusted(codes, edges, None, full_alphabet)

    @classmethod
    def _of_parts(cls, parts: SetParts) -> Self:
        return cls(parts.points, parts.offsets, parts.weights).labelled(parts.ids, parts.names, parts.targets)

    @classmethod
    def _trusted(
        cls,
        points: Points,
        offsets: I64,
        weights: F32 | None = None,
        alphabet: str | None = None,
        origin: F64 | None = None,
        labels: Labels = NO_LABELS,
    ) -> SampleSets:
        """Wrap valid arrays without checks; points are relative to the origin."""
        self = object.__new__(cls)
        self._set(points, offsets, weights, alphabet, origin, labels)
        return self

    def _set(
        self,
        points: Points,
        offsets: I64,
        weights: F32 | None,
        alphabet: str | None,
        origin: F64 | None,
        labels: Labels = NO_LABELS,
    ) -> None:
        self._points = read_only(points)
        self._offsets = read_only(offsets)
        self._weights = None if weights is None else read_only(weights)
        self._alphabet = alphabet
        self._origin = None if origin is None else normalize_origin(origin)
        self._labels = labels

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._points, self._offsets, self._weights, self._alphabet
        if self._labels:
            return SampleSets._trusted, (*state, self._origin, self._labels)
        return SampleSets._trusted, state if self._origin is None else (*state, self._origin)

    def _with(self, labels: Labels) -> SampleSets:
        return SampleSets._trusted(
            self._points, self._offsets, self._weights, self._alphabet, self._origin, labels
        )

    @property
    def points(self) -> Points:
        """(T, d) points, set after set, read-only; float64, computed at each access, if the origin is not 0."""
        return read_only(self._true(self._points))

    @property
    def relative(self) -> Points:
        """(T, d) stored points: float32 relative to `origin`, or codes; read-only."""
        return self._points

    @property
    def origin(self) -> F64:
        """(d,) float64 offsets that were subtracted from the stored points; usually 0."""
        return np.zeros(self.n_dims) if self._origin is None else self._origin

    def rebased(self, origin: F64 | None) -> SampleSets:
        """Return the sets relative to another origin (None for 0), shifted in float64.

        Raises `SampleSetError` naming a set whose shifted points overflow float32.
        """
        new_origin = normalize_origin(origin)
        is_unchanged = self._origin is None if new_origin is None else np.array_equal(self.origin, new_origin)
        if self._points.dtype != np.float32 or is_unchanged:
            return self
        points = translate(self._points, self.origin - (0 if new_origin is None else new_origin))
        require_finite(points, self._offsets)
        return SampleSets._trusted(
            points, self._offsets, self._weights, self._alphabet, new_origin, self._labels
        )

    def _true(self, points: Points) -> Points:
        return points if self._origin is None else points + self._origin

    @property
    def offsets(self) -> I64:
        """(N + 1,) int64: where each set starts in `points`; read-only."""
        return self._offsets

    @property
    def weights(self) -> F32 | None:
        """(T,) or (T, k) float32 weights of the points, or None; read-only."""
        return self._weights

    @property
    def alphabet(self) -> str | None:
        """Characters of string codes: code k is ``alphabet[k]``; None unless the sets are text."""
        return self._alphabet

    def strings(self) -> list[str]:
        """Return the sets as text; raises `SampleSetError` without an alphabet."""
        if self._alphabet is None:
            raise SampleSetError("sets have no alphabet. Make them from str with SampleSets.from_strings")
        return decode(self._points, self._offsets, self._alphabet)

    @property
    def shape(self) -> tuple[int]:
        """(N,), where scikit-learn expects the number of samples."""
        return (len(self),)

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return int(self._points.shape[1])

    @property
    def n_points(self) -> int:
        """The total number T of points."""
        return int(self._points.shape[0])

    @property
    def points_dtype(self) -> np.dtype[Any]:
        """float32, or uint8/uint16 for codes of strings."""
        return self._points.dtype

    @property
    def sizes(self) -> I64:
        """(N,) int64: the number of points n_i of each set."""
        return np.diff(self._offsets)

    @property
    def bounds(self) -> tuple[Points, Points]:
        """(low, high), each (d,): minima and maxima of the columns; one pass over the points."""
        low, high = self.relative_bounds
        return self._true(low), self._true(high)

    @property
    def relative_bounds(self) -> tuple[Points, Points]:
        """`bounds` relative to `origin`."""
        if len(self) == 0:
            raise SampleSetError("bounds need at least one set; got 0 sets.")
        return column_bounds(self._points)

    def weights_of(self, i: int) -> F32 | None:
        """Return the point weights of set i, (n_i,) or (n_i, k); None without weights."""
        if self._weights is None:
            return None
        i = as_position(i, len(self))
        return self._weights[self._offsets[i] : self._offsets[i + 1]]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Points]:
        edges = self._offsets.tolist()
        for start, stop in itertools.pairwise(edges):
            yield read_only(self._true(self._points[start:stop]))

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Points: ...
    @overload
    def __getitem__(self, key: Any) -> SampleSets: ...
    def __getitem__(self, key: Any) -> Points | SampleSets:
        selection = resolve_key(align_mask(key, lambda: self.ids), len(self))
        if isinstance(selection, int):
            return read_only(
                self._true(self._points[self._offsets[selection] : self._offsets[selection + 1]])
            )
        if isinstance(selection, range) and selection.step == 1:  # views of the same arrays
            edges = self._offsets[selection.start : selection.stop + 1]
            labels = self._labels.take(slice(selection.start, selection.stop))
            return self._of_rows(slice(edges[0], edges[-1]), edges - edges[0], labels)
        index = positions(selection)
        sizes = self.sizes[index]
        edges = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self._offsets[index] - edges[:-1], sizes) + np.arange(edges[-1])
        return self._of_rows(rows, edges, self._labels.take(index))

    def _of_rows(self, rows: slice | I64, offsets: I64, labels: Labels = NO_LABELS) -> SampleSets:
        weights = None if self._weights is None else self._weights[rows]
        return SampleSets._trusted(self._points[rows], offsets, weights, self._alphabet, self._origin, labels)

    def __repr__(self) -> str:
        extra = "" if self._weights is None else f", weights={self._weights.shape}"
        codes = "" if self._points.dtype == np.float32 else f", codes={self._points.dtype}"
        if self._alphabet is not None:
            codes += f", alphabet={len(self._alphabet)}"
        codes += origin_text(self._origin)
        return f"SampleSets(n_sets={len(self)}, n_points={self.n_points}, n_dims={self.n_dims}{extra}{codes})"

    def _repr_html_(self) -> str:
        return format_sets_html(self)
