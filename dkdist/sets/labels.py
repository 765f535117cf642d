"""What is known of sets beside their points: ids and targets of the sets, and names of the dimensions."""

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
MAX_NAME_BYTES = 255  # of a file name on Linux, macOS and Windows
STORED_DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


@dataclass(frozen=True, eq=False)
class Labels:
    """Ids (N,) and targets, arrays of N entries by name, of N sets; and the names of their d dimensions."""

    ids: Array | None = None
    names: Names | None = None
    targets: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls, ids: Any, names: Any, targets: Any, shape: tuple[int, int], known: Array | None = None
    ) -> Labels:
        """Checked, for ``shape`` = (N, d); a Series or frame of targets is put in the order of the ids by its index.

        Ids that are not given are those that are ``known``.
        """
        kept_ids = known if ids is None else require_unique_ids(as_ids(ids, shape[0]))
        named = {
            name: align_to_ids(v, kept_ids, f"targets {name!r}")
            for name, v in as_target_mapping(targets).items()
        }
        columns = {name: as_column(v, f"targets {name!r}", shape[0], max_ndim=2) for name, v in named.items()}
        return cls(kept_ids, as_names(names, shape[1]), columns)

    def take(self, index: slice | I64) -> Labels:
        """Of some of the sets."""
        if self.ids is None and not self.targets:
            return self
        ids = None if self.ids is None else self.ids[index]
        return Labels(ids, self.names, {name: values[index] for name, values in self.targets.items()})

    def __bool__(self) -> bool:
        return self.ids is not None or self.names is not None or bool(self.targets)


NO_LABELS = Labels()


class LabelsMixin:
    """What a collection of N sets in d dimensions shows of its labels."""

    __slots__ = ()
    _labels: Labels

    @property
    def shape(self) -> tuple[int]:
        """(N,)."""
        raise NotImplementedError

    @property
    def n_dims(self) -> int:
        """d."""
        raise NotImplementedError

    def _with(self, labels: Labels) -> Self:
        """The same sets with other labels."""
        raise NotImplementedError

    @property
    def ids(self) -> NDArray[Any] | None:
        """(N,) int or str: the ids of the sets, or None if they have none; read-only."""
        return self._labels.ids

    @property
    def names(self) -> Names | None:
        """The names of the d dimensions, or None if they have none."""
        return self._labels.names

    @property
    def targets(self) -> Mapping[str, NDArray[Any]]:
        """Targets by name, each with one entry a set; empty if there are none."""
        return MappingProxyType(dict(self._labels.targets))

    def labelled(
        self, ids: ArrayLike | None = None, names: Sequence[str] | None = None, targets: Any = None
    ) -> Self:
        """The same sets with ids, names of dimensions or targets; what is not given stays, and points are shared.

        Parameters
        ----------
        ids : (N,) array of int or str, optional
        names : d str, optional
            Names of the dimensions.
        targets : (N,) or (N, k) array, mapping of names to such arrays, or data frame, optional
            Numbers, booleans or str, in place of those of the same name; a single array is "y". A pandas Series or
            frame is joined by its index to the ids of the sets, if they have any.

        Raises `SampleSetError` for lengths that do not fit, for other dtypes, for ids that two sets have, and for an
        index that lacks an id.

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
    """Targets by name; a single array, or Series, is "y". Those of Dask are computed."""
    targets = load_collection(targets)
    if targets is None:
        return {}
    if has_index(targets) and targets.ndim == 2:
        named = {name: targets[name] for name in targets.columns}
    elif hasattr(targets, "columns"):
        raise SampleSetError(
            f"targets are a {type(targets).__module__.split('.')[0]} {type(targets).__name__}, which has no index to "
            "join by: give frame.to_pandas().set_index(NAME OF THE IDS), or a mapping of names to arrays in the order "
            "of the sets; SampleSets.from_frame and import_frame take it as it is"
        )
    else:
        given = targets if isinstance(targets, Mapping) else {"y": targets}
        named = {name: load_collection(values) for name, values in given.items()}
    for name in named:
        check_name(name)
    return named


def as_names(names: Any, n_dims: int) -> Names | None:
    """Names of the dimensions, one for each and all different; None stays."""
    if names is None:
        return None
    given = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if len(given) != n_dims or not all(isinstance(name, str) for name in given):
        raise SampleSetError(
            f"names must be {n_dims} str, one for each dimension of the points; found {given!r:.200}"
        )
    if twice := [name for name in given if given.count(name) > 1]:
        raise SampleSetError(f"names must differ, and {twice[0]!r} names two dimensions: rename one")
    return tuple(map(str, given))


def as_ids(ids: Any, n_sets: int) -> Array:
    """Ids of sets: integers or str."""
    column = as_column(ids, "ids", n_sets, max_ndim=1)
    if column.dtype.kind not in "iuU":
        raise SampleSetError(f"ids have dtype {column.dtype}: give integers or str")
    return column


def require_unique_ids(ids: Array) -> Array:
    """The ids, if no two sets have the same. What is chosen from a collection, a set twice perhaps, keeps its ids."""
    order = np.argsort(ids, kind="stable")
    twice = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if len(twice):
        i = int(twice.min())
        first = int(np.flatnonzero(ids == ids[i])[0])
        raise SampleSetError(
            f"sets {first} and {i} both have the id {ids[[i]].tolist()[0]!r}: an id is that of one set, by "
            "which targets and results are joined. Join their points if they are one set, or give them ids of their own"
        )
    return ids


def as_column(values: Any, what: str, n_sets: int, max_ndim: int) -> NDArray[Any]:
    """One entry (or row) a set, as a store keeps them: numbers, booleans or str; read-only, and a copy."""
    array = np.asarray(values)
    if array.dtype.kind == "T" or (array.dtype.kind == "O" and set(map(type, array.flat)) <= {str, np.str_}):
        array = array.astype(np.str_)
    if not 1 <= array.ndim <= max_ndim or 0 in array.shape[1:]:
        shapes = "(n_sets,)" if max_ndim == 1 else "(n_sets,) or (n_sets, k)"
        raise SampleSetError(f"{what} must have shape {shapes}, found {array.shape}")
    if len(array) != n_sets:
        raise SampleSetError(f"{what} has {len(array)} rows but there are {n_sets} sets: give one a set")
    text = array.dtype.kind == "U" and array.ndim == 1
    if not text and array.dtype.str[1:] not in STORED_DTYPES:
        raise SampleSetError(
            f"{what} has dtype {array.dtype}: give numbers, booleans, or str in one dimension"
        )
    column = array.astype(array.dtype.newbyteorder("="))
    column.flags.writeable = False
    return column


def require_portable_names(names: Iterable[str]) -> None:
    """Refuse names that are one file name on systems which ignore case or Unicode normalization."""
    name_by_key: dict[str, str] = {}
    for name in names:
        key = normalize("NFC", normalize("NFC", name).casefold())
        other = name_by_key.setdefault(key, name)
        if other != name:
            raise SampleSetError(
                f"names of targets must differ in more than case and Unicode form; got {other!r} and {name!r} "
                f"({other!a} and {name!a}). Rename one: macOS and Windows cannot store both."
            )


def check_name(name: Any) -> None:
    """Refuse what cannot name targets: a path, a hidden file, or what Zarr keeps for itself."""
    good = isinstance(name, str) and name.strip() and not name.startswith((".", "__")) and name != "zarr.json"
    if good and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise SampleSetError(
            f"names of targets must have at most {MAX_NAME_BYTES} bytes in UTF-8; got {len(name)} characters: "
            f"{name[:40]!r}..."
        )
    if not good or any(c in name for c in "/\\") or not name.isprintable():
        raise SampleSetError(
            f"{name!r:.200} cannot name targets: use a non-empty str without '/', '\\' or control characters that "
            "does not start with '.' or '__'"
        )
