"""Labels of sets: ids, targets, and names of the dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._numba.arrays import I64, Array
from dkdist.sets.indexing import align_to_ids, has_index, load_collection
from dkdist.sets.point_checks import SampleSetError

Names = tuple[str, ...]
MAX_NAME_BYTES = 255  # maximum length of file names (https://pubs.opengroup.org/onlinepubs/9699919799/)
STORED_DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


@dataclass(frozen=True, eq=False)
class Labels:
    """Ids (N,), targets by name (N entries each), and names of the d dimensions."""

    ids: Array | None = None
    names: Names | None = None
    targets: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls, ids: Any, names: Any, targets: Any, shape: tuple[int, int], current_ids: Array | None = None
    ) -> Labels:
        """Check labels for ``shape`` = (N, d), and align pandas targets with the ids by their index.

        ``current_ids`` are used if ``ids`` is None.
        """
        set_ids = current_ids if ids is None else require_unique_ids(as_ids(ids, shape[0]))
        named = {
            name: align_to_ids(v, set_ids, f"targets {name!r}")
            for name, v in as_target_mapping(targets).items()
        }
        columns = {name: as_column(v, f"targets {name!r}", shape[0], max_ndim=2) for name, v in named.items()}
        return cls(set_ids, as_names(names, shape[1]), columns)

    def take(self, index: slice | I64) -> Labels:
        """Return the labels of selected sets."""
        if self.ids is None and not self.targets:
            return self
        ids = None if self.ids is None else self.ids[index]
        return Labels(ids, self.names, {name: values[index] for name, values in self.targets.items()})

    def __bool__(self) -> bool:
        return self.ids is not None or self.names is not None or bool(self.targets)


NO_LABELS = Labels()


class LabelsMixin:
    """Mixin with the labels of a collection of N sets in d dimensions."""

    __slots__ = ()
    _labels: Labels

    @property
    def shape(self) -> tuple[int]:
        """(N,)."""
        raise NotImplementedError

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        raise NotImplementedError

    def _with(self, labels: Labels) -> Self:
        """Return the sets with other labels."""
        raise NotImplementedError

    @property
    def ids(self) -> NDArray[Any] | None:
        """(N,) int or str ids of the sets, read-only; None without ids."""
        return self._labels.ids

    @property
    def names(self) -> Names | None:
        """Names of the d dimensions; None without names."""
        return self._labels.names

    @property
    def targets(self) -> Mapping[str, NDArray[Any]]:
        """Targets by name, each with one entry per set; may be empty."""
        return MappingProxyType(dict(self._labels.targets))

    def labelled(
        self, ids: ArrayLike | None = None, names: Sequence[str] | None = None, targets: Any = None
    ) -> Self:
        """Return the sets with new ids, names of dimensions or targets; points are shared.

        Omitted labels are unchanged.

        Parameters
        ----------
        ids : (N,) array of int or str, optional
        names : d str, optional
            Names of the dimensions.
        targets : (N,) or (N, k) array, mapping of names to such arrays, or data frame, optional
            Numbers, booleans or str; they replace targets of the same name. A single array is named "y". A pandas
            Series or frame is joined to the ids of the sets by its index, if the sets have ids.

        Raises
        ------
        SampleSetError
            For wrong lengths or dtypes, duplicate ids, and an index that lacks an id.

        Examples
        --------
        >>> import numpy as np
        >>> from dkdist.sets import SampleSets
        >>> sets = SampleSets.from_arrays([np.zeros((3, 2)), np.ones((1, 2))])
        >>> sets = sets.labelled(["a", "b"], ["cd3", "cd4"], [1, 0])
        >>> sets[1:].ids, sets.names, sets[[1, 0]].targets["y"]
        (array(['b'], dtype='<U1'), ('cd3', 'cd4'), array([0, 1]))
        """
        old = self._labels
        columns = {**old.targets, **as_target_mapping(targets)}
        shape = self.shape[0], self.n_dims
        return self._with(Labels.of(ids, old.names if names is None else names, columns, shape, old.ids))


def as_target_mapping(targets: Any) -> dict[str, Any]:
    """Convert targets to a mapping by name; a single array or Series is "y". Computes Dask targets."""
    targets = load_collection(targets)
    if targets is None:
        return {}
    if has_index(targets) and targets.ndim == 2:
        named = {name: targets[name] for name in targets.columns}
    elif hasattr(targets, "columns"):
        raise SampleSetError(
            "targets must be arrays, a mapping of names to arrays, or a pandas frame with an index of ids; got "
            f"{type(targets).__module__.split('.')[0]} {type(targets).__name__}. Pass "
            "frame.to_pandas().set_index(NAME OF THE IDS), or use SampleSets.from_frame or import_frame."
        )
    else:
        mapping = targets if isinstance(targets, Mapping) else {"y": targets}
        named = {name: load_collection(values) for name, values in mapping.items()}
    for name in named:
        check_name(name)
    return named


def as_names(names: Any, n_dims: int) -> Names | None:
    """Check names of the dimensions: unique str, one per dimension; None is unchanged."""
    if names is None:
        return None
    values = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if len(values) != n_dims or not all(isinstance(name, str) for name in values):
        raise SampleSetError(
            f"names must be {n_dims} str, one per dimension of the points; got {values!r:.200}."
        )
    if duplicates := [name for name in values if values.count(name) > 1]:
        raise SampleSetError(f"names must be unique; got {duplicates[0]!r} twice. Rename one.")
    return tuple(map(str, values))


def as_ids(ids: Any, n_sets: int) -> Array:
    """Check ids of sets: (N,) integers or str."""
    column = as_column(ids, "ids", n_sets, max_ndim=1)
    if column.dtype.kind not in "iuU":
        raise SampleSetError(f"ids must be integers or str; got {column.dtype}.")
    return column


def require_unique_ids(ids: Array) -> Array:
    """Return the ids; raises for duplicates. Selections of a collection may repeat ids."""
    order = np.argsort(ids, kind="stable")
    repeated = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if len(repeated):
        i = int(repeated.min())
        first = int(np.flatnonzero(ids == ids[i])[0])
        raise SampleSetError(
            f"ids must be unique; got {ids[[i]].tolist()[0]!r} for sets {first} and {i}. Merge the points of one set, "
            "or use separate ids."
        )
    return ids


def as_column(values: Any, what: str, n_sets: int, max_ndim: int) -> NDArray[Any]:
    """Copy one entry (or row) per set to a read-only array of a stored dtype."""
    array = np.asarray(values)
    if array.dtype.kind == "T" or (array.dtype.kind == "O" and set(map(type, array.flat)) <= {str, np.str_}):
        array = array.astype(np.str_)
    if not 1 <= array.ndim <= max_ndim or 0 in array.shape[1:]:
        shapes = "(n_sets,)" if max_ndim == 1 else "(n_sets,) or (n_sets, k)"
        raise SampleSetError(f"{what} must have shape {shapes}; got {array.shape}.")
    if len(array) != n_sets:
        raise SampleSetError(f"{what} must have one row per set, {n_sets}; got {len(array)}.")
    text = array.dtype.kind == "U" and array.ndim == 1
    if not text and array.dtype.str[1:] not in STORED_DTYPES:
        raise SampleSetError(f"{what} must be numbers, booleans, or 1-D str; got dtype {array.dtype}.")
    column = array.astype(array.dtype.newbyteorder("="))
    column.flags.writeable = False
    return column


def require_portable_names(names: Iterable[str]) -> None:
    """Raise for names that differ only in case or Unicode form, which some file systems treat as equal."""
    name_by_key: dict[str, str] = {}
    for name in names:
        key = normalize("NFC", normalize("NFC", name).casefold())
        other_name = name_by_key.setdefault(key, name)
        if other_name != name:
            raise SampleSetError(
                f"names of targets must differ in more than case and Unicode form; got {other_name!r} and {name!r} "
                f"({other_name!a} and {name!a}). Rename one: macOS and Windows cannot store both."
            )


def check_name(name: Any) -> None:
    """Raise for invalid target names: paths, hidden files, and names reserved by Zarr."""
    is_valid = (
        isinstance(name, str) and name.strip() and not name.startswith((".", "__")) and name != "zarr.json"
    )
    if is_valid and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise SampleSetError(
            f"names of targets must have at most {MAX_NAME_BYTES} bytes in UTF-8; got {len(name)} characters: "
            f"{name[:40]!r}..."
        )
    if not is_valid or any(c in name for c in "/\\") or not name.isprintable():
        raise SampleSetError(
            "names of targets must be non-empty str without '/', '\\' and control characters, and must not start with "
            f"'.' or '__'; got {name!r:.200}."
        )
