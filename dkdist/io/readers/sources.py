"""Sources of an import: files, or any objects that a user's function reads.

A source is read at most twice: for its *outline* (sizes of sets, cheap metadata), and for its sets, in batches.
A set lies within one source. Errors become a `SourceError` that names the source. The selected columns and the number
of dropped sets are logged.
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


def log_summary(lines: Iterable[str], dropped: int, *, verbose: bool = False) -> None:
    """Log distinct lines at level INFO, and the number of dropped sets as a warning.

    ``verbose`` prints the lines to standard error unless they are logged.
    """
    for line in dict.fromkeys(filter(None, lines)):
        LOG.info("%s", line)
        if verbose and not LOG.isEnabledFor(logging.INFO):
            print(f"import: {line}", file=sys.stderr)
    if dropped:
        LOG.warning(
            "%s", f"{dropped:,} {'set was' if dropped == 1 else 'sets were'} dropped: without a target"
        )


class SourceError(ValueError):
    """Error for a source that cannot be read or does not match the others; the message names it.

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
    """Format a source for messages, without secrets."""
    if isinstance(source, os.PathLike):
        return os.fsdecode(source)
    if isinstance(source, str):
        return repr(url_label(source) if "://" in source else source)
    text = without_secrets(_FULL_REPR.repr(source))  # before truncation, which could split a secret
    return text if len(text) <= MAX_LABEL_CHARACTERS else text[:MAX_LABEL_CHARACTERS] + "..."


MAX_LABEL_CHARACTERS = 100  # maximum length of a source in a message; tests/places/test_secrets.py
_FULL_REPR = reprlib.Repr()
_FULL_REPR.maxstring = _FULL_REPR.maxother = 10_000


@contextmanager
def source_errors(source: Any) -> Iterator[None]:
    """Convert errors of reading a source to `SourceError`."""
    try:
        with panics_as_errors():
            yield
    except (SourceError, MemoryError):
        raise
    except Exception as error:
        text = without_secrets(str(error), secrets_in(source) if isinstance(source, str) else ())
        text = text.removesuffix(".")
        raise SourceError(
            f"source {source_label(source)} cannot be imported ({type(error).__name__}: {text}). "
            "Nothing was committed. Correct or omit it."
        ) from error


def outline_of(read: Any, source: Any, *, read_all: bool = False) -> Outline:
    """Return the outline of a source; ``read_all``, or a reader without outlines, reads all sets."""
    with source_errors(source):
        if not read_all and hasattr(read, "outline"):
            outline: Outline = read.outline(source)
        elif not read_all and hasattr(read, "sizes"):
            outline = Outline(_as_sizes(read.sizes(source)))
        else:
            outline = _outline_by_reading(read, source)
        if not len(outline.sizes):
            raise ValueError("source must have at least one set")
        return outline


def unify_outlines(read: Any, outlines: Sequence[Outline]) -> list[Outline]:
    """Let the reader make outlines consistent with each other."""
    return list(read.agreed(outlines)) if hasattr(read, "agreed") else list(outlines)


def _as_sizes(values: Any) -> I64:
    sizes = np.asarray(values)
    if sizes.shape != (0,) and (sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any()):
        raise ValueError(f"sizes must be positive integers, one per set; got {values!r:.200}")
    return sizes.astype(np.int64)


def _outline_by_reading(read: Any, source: Any) -> Outline:
    sizes, ids, form, origin, names, sample = [np.empty(0, np.int64)], [], None, None, None, None
    for batch in batches_of(read, source):
        sizes.append(batch.sets.sizes)
        ids += [batch.columns["ids"]] if "ids" in batch.columns else []
        form, origin = form or batch.form, batch.sets.origin if origin is None else origin
        names = names or batch.sets.names
        sample = _sample_rows(batch.sets) if sample is None else sample
    all_ids = np.concatenate(ids) if ids else None
    return Outline(np.concatenate(sizes), all_ids, form, origin, names, sample=sample)


def _sample_rows(sets: SampleSets) -> F64:
    return rows_of_source(sets.relative) + sets.origin


class OriginSample(NamedTuple):
    """Origin of one source, and sample rows (m, d) from it."""

    origin: F64 | None
    rows: F64


def origin_sample(read: Any, source: Any) -> OriginSample | None:
    """Read the origin and sample rows of the first batch of a source; None without sets."""
    batch = next(batches_of(read, source), None)
    return (
        None if batch is None else OriginSample(normalize_origin(batch.sets.origin), _sample_rows(batch.sets))
    )


def joint_origin_of(samples: Sequence[OriginSample], d: int) -> F64:
    """Return the origin (d,) of a store of several sources, independent of their order."""
    # sources of another dimension raise an error when they are read
    fits = [sample for sample in samples if sample.rows.shape[1] == d]
    if len(fits) > 1:
        origin = infer_joint_origin([sample.rows for sample in fits], [sample.origin for sample in fits])
    else:
        origin = fits[0].origin if fits else None
    return np.zeros(d) if origin is None else origin


def batches_of(read: Any, source: Any, origin: F64 | None = None) -> Iterator[Batch]:
    """Iterate over the batches of a source, relative to the origin."""
    with source_errors(source):
        result = getattr(read, "read", read)(source)
    batches = result if isinstance(result, Iterator) else iter([result])
    while True:
        with source_errors(source):
            try:
                batch = _as_batch(next(batches), origin)
            except StopIteration:
                return
        if len(batch.sets):
            yield batch


def _as_batch(result: Any, origin: F64 | None) -> Batch:
    """Convert the result of a reader: sets, (sets, targets) or (sets, targets, ids)."""
    parts = result if isinstance(result, tuple) else (result,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            f"a reader must return sets, (sets, targets) or (sets, targets, ids); got a tuple of {len(parts)}"
        )
    sets, targets, ids = (*parts, None, None)[:3]
    collection = convert_to_origin(sets, origin, "the store")
    if collection.alphabet is not None:
        raise ValueError(
            "a reader must not return strings, whose alphabets differ between sources. Use write_sets or SetWriter, or "
            "integer codes with the same meaning in all sources"
        )
    return Batch(collection, columns_of(collection, targets, ids))
