"""Several tables of one store: what came as text means the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dkdist.loops.array_types import Array
from dkdist.store.format.batches import Outline, dtype_name
from dkdist.store.importing.tables.indexed_table import IndexedTable

WIDER = (("str", "<U20"), ("float64", "float64"))  # what whole numbers become where others have these


def agreed(outlines: Sequence[Outline]) -> list[Outline]:
    """The outlines, in which whole numbers that came as text are text or numbers where they are that elsewhere.

    Nothing is lost: text counts as whole numbers only if they are printed so.
    """
    found = list(outlines)
    names = dict.fromkeys(name for outline in found for name in outline.form or {})
    for name in names:
        kinds = {outline.form[name][0] for outline in found if outline.form and name in outline.form}
        for kind, dtype in WIDER:
            if kind in kinds and "int64" in kinds and name not in ("points", "weights"):
                found = [_widened(outline, name, dtype) for outline in found]
                break
    return found


def _widened(outline: Outline, name: str, dtype: str) -> Outline:
    table, column = outline.source, name.removeprefix("targets/")
    if not isinstance(table, IndexedTable) or outline.form is None or outline.form[name][0] != "int64":
        return outline
    if (table.columns.set_id if name == "ids" else column) not in table.as_text:
        return outline
    index = table.index
    values: Array = (index.ids if name == "ids" else index.targets[column]).astype(dtype)
    changed = (
        index._replace(ids=values)
        if name == "ids"
        else index._replace(targets={**index.targets, column: values})
    )
    form = {**outline.form, name: (dtype_name(values.dtype), ())}
    return outline._replace(ids=changed.ids, form=form, source=replace(table, index=changed))
