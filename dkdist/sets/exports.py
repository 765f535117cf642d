"""Sets as awkward arrays, Arrow tables and xarray datasets; the points are shared where the library allows it."""

from __future__ import annotations

from typing import Any

import numpy as np


class ExportsMixin:
    """Methods of `SampleSets` that return collections of other libraries; `as_sets` reads them back."""

    __slots__ = ()

    def to_awkward(self: Any) -> Any:
        """Return an awkward array of the points: N * var * d numbers, or records if the dimensions have names.

        Weights, ids and targets are not part of it. Requires awkward.

        Examples
        --------
        >>> import numpy as np
        >>> from dkdist.sets import SampleSets
        >>> print(SampleSets.from_arrays([np.zeros((3, 2)), np.ones((1, 2))]).to_awkward().type)
        2 * var * 2 * float32
        """
        import awkward as ak

        points = np.asarray(self.points)
        if self.names is None:
            content = ak.contents.NumpyArray(points)
        else:
            columns = [ak.contents.NumpyArray(points[:, j]) for j in range(self.n_dims)]
            content = ak.contents.RecordArray(columns, list(self.names))
        return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(self.offsets), content))

    def to_arrow(self: Any) -> Any:
        """Return a `pyarrow.Table` with one row per set: "points", and "weights", "id" and targets if there are any.

        Points are lists of fixed-size lists, or of structs if the dimensions have names. Requires pyarrow.

        Examples
        --------
        >>> import numpy as np
        >>> from dkdist.sets import SampleSets
        >>> table = SampleSets.from_arrays([np.zeros((3, 2)), np.ones((1, 2))], targets=[0, 1]).to_arrow()
        >>> table.column_names, table["points"].type
        (['points', 'y'], ListType(list<item: fixed_size_list<item: float>[2]>))
        """
        import pyarrow as pa

        points = np.asarray(self.points)
        if self.names is None:
            values = pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), self.n_dims)
        else:
            values = pa.StructArray.from_arrays(
                [pa.array(points[:, j]) for j in range(self.n_dims)], list(self.names)
            )
        columns: dict[str, Any] = {"points": self._arrow_lists(values)}
        if self.weights is not None:
            columns["weights"] = self._arrow_lists(_arrow_column(self.weights))
        if self.ids is not None:
            columns["id"] = pa.array(self.ids)
        columns |= {name: _arrow_column(column) for name, column in self.targets.items()}
        return pa.table(columns)

    def _arrow_lists(self: Any, values: Any) -> Any:
        import pyarrow as pa

        if self.n_points < 2**31:
            return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), values)
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), values)

    def to_xarray(self: Any) -> Any:
        """Return an `xarray.Dataset` in CF's contiguous ragged representation, with weights, ids and targets.

        Requires xarray.

        Examples
        --------
        >>> import numpy as np
        >>> from dkdist.sets import SampleSets
        >>> dataset = SampleSets.from_arrays([np.zeros((3, 2)), np.ones((1, 2))], targets=[0, 1]).to_xarray()
        >>> dict(dataset.sizes), dataset["row_size"].values
        ({'point': 4, 'column': 2, 'set': 2}, array([3, 1]))
        """
        import xarray as xr

        variables: dict[str, Any] = {
            "points": (("point", "column"), np.asarray(self.points)),
            "row_size": ("set", self.sizes, {"sample_dimension": "point"}),
        }
        if self.weights is not None:
            dims = ("point", "channel")[: self.weights.ndim]
            variables["weights"] = (dims, np.asarray(self.weights))
        for name, values in self.targets.items():
            variables[name] = (("set", f"{name}_column")[: values.ndim], values)
        coordinates: dict[str, Any] = {} if self.ids is None else {"set": self.ids}
        if self.names is not None:
            coordinates["column"] = list(self.names)
        return xr.Dataset(variables, coordinates)


def _arrow_column(values: Any) -> Any:
    """Return one entry per row: numbers, or fixed-size lists for (N, k)."""
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
