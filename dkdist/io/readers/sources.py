"""Sources: what one store is imported from, one after another - files, or anything a user's function can read.

A source is read twice at most: an *outline* (how large its sets are, and what else is cheap to know), and then
its sets, in batches. A set lies wholly within one source. Whatever goes wrong in a source is a `SourceError`
that names it.

What an import tells beside its result, by logging: which columns it took, and how many sets it dropped.
"""

from __future__ import annotations

import logging
import os
import reprlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist._utils.rust_panics import panics_as_errors
from dkdist.io._zarr.batches import Batch, Outline, columns_of, convert_to_origin
from dkdist.io._zarr.location.web import secrets_in, url_label, without_secrets
from dkdist.sets import SampleSets
from dkdist.sets.origins import infer_joint_origin, normalize_origin, rows_of_source

LOG = logging.getLogger("dkdist.importing")


def log_summary(told: Iterable[str], dropped: int, *, verbose: bool = False) -> None:
    """Log each line once: what was taken as information, what was dropped as a warning.

    ``verbose`` shows information on standard error where nobody logs it.
    """
    for line in dict.fromkeys(filter(None, told)):
        LOG.info("%s", line)
        if verbose and not LOG.isEnabledFor(logging.INFO):
            print(f"import: {line}", file=sys.stderr)
    if dropped:
        LOG.warning(
            "%s", f"{dropped:,} {'set was' if dropped == 1 else 'sets were'} dropped: without a target"
        )


class SourceError(ValueError):
    """A source cannot be read, or does not fit the others; the message names it.

    Examples
    --------
    >>> import dkdist as dk, tempfile
    >>> try:
    ...     dk.import_sets(tempfile.mkdtemp() + "/sets.zarr", ["lost.npz"])
    ... except dk.SourceError as error:
    ...     print(str(error)[:35])
    source 'lost.npz' cannot be importe
    """


def source_label(source: Any) -> str:
    """How messages name a source."""
    if isinstance(source, os.PathLike):
        return os.fsdecode(source)
    if isinstance(source, str):
        return repr(url_label(source) if "://" in source else source)
    told = without_secrets(
        _FULL_REPR.repr(source)
    )  # before anything is cut, or a part of a secret would stay
    return told if len(told) <= MAX_LABEL_CHARACTERS else told[:MAX_LABEL_CHARACTERS] + "..."


MAX_LABEL_CHARACTERS = 100
_FULL_REPR = reprlib.Repr()
_FULL_REPR.maxstring = _FULL_REPR.maxother = 10_000


@contextmanager
def source_errors(source: Any) -> Iterator[None]:
    """Turn whatever goes wrong while a source is read into a `SourceError` with its name."""
    try:
        with panics_as_errors():
            yield
    except (SourceError, MemoryError):
        raise
    except Exception as error:
        said = without_secrets(str(error), secrets_in(source) if isinstance(source, str) else ())
        raise SourceError(
            f"source {source_label(source)} cannot be imported ({type(error).__name__}: {said}). "
            "Nothing was committed: repair it, or leave it out"
        ) from error


def outline_of(read: Any, source: Any, *, whole: bool = False) -> Outline:
    """The outline of a source; ``whole`` (or a reader that has no cheaper way) reads all of its sets for it."""
    with source_errors(source):
        if not whole and hasattr(read, "outline"):
            outline: Outline = read.outline(source)
        elif not whole and hasattr(read, "sizes"):
            outline = Outline(_as_sizes(read.sizes(source)))
        else:
            outline = _outline_by_reading(read, source)
        if not len(outline.sizes):
            raise ValueError("it has no sets: every source needs at least one")
        return outline


def unify_outlines(read: Any, outlines: Sequence[Outline]) -> list[Outline]:
    """The outlines as a reader sees them together."""
    return list(read.agreed(outlines)) if hasattr(read, "agreed") else list(outlines)


def _as_sizes(given: Any) -> I64:
    sizes = np.asarray(given)
    if sizes.shape != (0,) and (sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any()):
        raise ValueError(f"its sizes must be whole numbers above 0, one a set, found {given!r:.200}")
    return sizes.astype(np.int64)


def _outline_by_reading(read: Any, source: Any) -> Outline:
    sizes, ids, form, origin, names, sample = [np.empty(0, np.int64)], [], None, None, None, None
    for batch in batches_of(read, source):
        sizes.append(batch.sets.sizes)
        ids += [batch.columns["ids"]] if "ids" in batch.columns else []
        form, origin = form or batch.form, batch.sets.origin if origin is None else origin
        names = names or batch.sets.names
        sample = _sample_rows(batch.sets) if sample is None else sample
    known = np.concatenate(ids) if ids else None
    return Outline(np.concatenate(sizes), known, form, origin, names, sample=sample)


def _sample_rows(sets: SampleSets) -> F64:
    return rows_of_source(sets.relative) + sets.origin


class OriginSample(NamedTuple):
    """The origin that a source would have, and some of its rows (m, d)."""

    origin: F64 | None
    rows: F64


def origin_sample(read: Any, source: Any) -> OriginSample | None:
    """Those of the first batch of a source, which is read for it; None if it has no sets."""
    batch = next(batches_of(read, source), None)
    return (
        None if batch is None else OriginSample(normalize_origin(batch.sets.origin), _sample_rows(batch.sets))
    )


def joint_origin_of(samples: Sequence[OriginSample], d: int) -> F64:
    """(d,) the origin of a store of these sources: that of one, or one that follows from all, whatever their order."""
    fits = [
        sample for sample in samples if sample.rows.shape[1] == d
    ]  # others are refused when they are read
    if len(fits) > 1:
        origin = infer_joint_origin([sample.rows for sample in fits], [sample.origin for sample in fits])
    else:
        origin = fits[0].origin if fits else None
    return np.zeros(d) if origin is None else origin


def batches_of(read: Any, source: Any, origin: F64 | None = None) -> Iterator[Batch]:
    """The sets of a source, in order, as a reader gives them: at once, or in batches; counted from the origin."""
    with source_errors(source):
        given = getattr(read, "read", read)(source)
    batches = given if isinstance(given, Iterator) else iter([given])
    while True:
        with source_errors(source):
            try:
                batch = _as_batch(next(batches), origin)
            except StopIteration:
                return
        if len(batch.sets):
            yield batch


def _as_batch(given: Any, origin: F64 | None) -> Batch:
    """SampleSets, or what `as_sample_sets` takes; or (sets, targets) or (sets, targets, ids).

    What is not given is what the sets have.
    """
    parts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"expected (sets, targets, ids) or fewer of them, found a tuple of {len(parts)}")
    sets, targets, ids = (*parts, None, None)[:3]
    collection = convert_to_origin(sets, origin, "the store")
    if collection.alphabet is not None:
        raise ValueError(
            "it gives strings, whose alphabet would be its own: write them with write_sets or SetWriter, or number the "
            "symbols alike in all sources and give integers"
        )
    return Batch(collection, columns_of(collection, targets, ids))


def as_reader(read: Any, sources: Sequence[Any]) -> Any:
    """The reader itself, or the one that the suffixes of the sources ask for."""
    if read is not None:
        if not callable(getattr(read, "read", read)):
            raise TypeError(
                f"read is {read!r:.200}: give a function read(source), or an object with read(source) and sizes(source)"
            )
        return read
    from dkdist.io.readers.kinds import DEFAULT_READERS, KINDS, kind_of, reader_of

    kinds = [kind_of(source) if isinstance(source, (str, os.PathLike)) else "" for source in sources]
    for source, kind in zip(sources, kinds, strict=True):
        if kind in ("", "table"):
            known = ", ".join(suffix for kind in DEFAULT_READERS for suffix in KINDS[kind])
            raise ValueError(
                f"nothing says how to read source {source_label(source)}: without read= sources are files that end "
                f"in one of {known}. For tables give read=TableReader(set_id), for anything else a function "
                "that returns SampleSets"
            )
        if kind != kinds[0]:
            raise ValueError(
                f"{source_label(sources[0])} and {source_label(source)} are files of two kinds: import one "
                "kind at a time"
            )
    return reader_of(kinds[0])
