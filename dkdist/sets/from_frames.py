"""How collections are made of data frames: what users call, on the road to `frames` and `annotated`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from dkdist.sets.frames import Parts


class FromFrames:
    """Makes collections of frames with one row a point."""

    __slots__ = ()

    @classmethod
    def _of_parts(cls, parts: Parts) -> Self:
        """Sets of what a frame holds, checked."""
        raise NotImplementedError

    @classmethod
    def from_frame(
        cls, frame: Any, set_id: str, points: Any = None, targets: Any = None, weights: str | None = None
    ) -> Self:
        """Make a collection of a data frame (pandas, polars or pyarrow) with one row a point, in any order of rows.

        Sets come in the order in which their ids first appear, and the rows of a set keep theirs. Needs narwhals and
        pandas (``pip install 'dkdist[frames]'``).

        Parameters
        ----------
        frame : data frame
            Whole, in memory; `import_frame` writes a store of a Dask DataFrame.
        set_id : str
            The column of ids, integers or text (which stays text: "007").
        points : names of columns, optional
            The coordinates, in this order; by default all numeric or boolean columns that are nothing else. What is
            left out, and what only counts rows ("Unnamed: 0"), is told by a warning; the columns taken are logged
            (``dkdist.importing``, level INFO).
        targets : data frame, Series or names of columns, optional
            Entries for each id, joined by the index (pandas) or by a column named as ``set_id``, in any order; or
            columns of ``frame`` that are constant within each set.
        weights : str, optional
            A column of weights of the points.

        Raises `SampleSetError`, naming column, row and set, for missing ids or values, text or categories as
        coordinates, targets that change within a set, have no entry for an id, or have two. Cost: a sort of the rows,
        and a second copy of the points.

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
        from dkdist.sets.frames import parts_of_frame

        return cls._of_parts(parts_of_frame(frame, set_id, points, targets, weights))

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
        """Make a collection of annotated observations (AnnData, or what is like it), one a point.

        Parameters
        ----------
        adata : AnnData
        set_key : str
            The column of ``adata.obs`` with ids, such as the donor of each cell.
        obsm, layer : str, optional
            Which matrix has the points: ``adata.obsm[obsm]`` ("X_pca"), ``adata.layers[layer]``, or ``adata.X``.
        columns : names, optional
            Its columns to take; a sparse matrix is made dense for these alone, and must be narrow without.
        targets : data frame, Series or names of columns of ``adata.obs``, optional
            As for `from_frame`.

        Raises as `from_frame`. Cost: a sort of the observations and a dense copy of the chosen columns.

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
        from dkdist.sets.annotated import parts_of_annotated

        return cls._of_parts(parts_of_annotated(adata, set_key, obsm, layer, columns, targets))
