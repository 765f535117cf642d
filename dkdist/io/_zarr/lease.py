"""Writer leases: exclusive rights of writers to a location, and atomic commits.

A token in the location, an attribute of the Zarr group `commits`, identifies the writer. Of two writers the later one
takes over; the earlier one raises before its next write. A new store on a local disk is written to a staging folder
next to its path; the commit exchanges both in one step, so the replaced store remains readable until then. Elsewhere,
and for appends, the root document is the commit, written last as one object. On a disk, data are flushed before the
commit and the commit is flushed after it.

Conditional writes (object stores through obstore) or folder locks (local disks) exclude two concurrent commits.
Elsewhere (memory, s3fs, some network disks) a short race remains between checking the token and writing.

An icechunk session needs no token: its commit fails if another session committed first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
import zipfile
from collections.abc import Iterator
from typing import Any

from zarr.abc.store import Store
from zarr.storage import ZipStore

from dkdist.io._zarr._zarr_private import sync
from dkdist.io._zarr.checksums import COMMITS
from dkdist.io._zarr.layout import Metadata, dump_json, group_document, named_arrays, parse_commit
from dkdist.io._zarr.location.address import StoreLocation, get_bytes, list_names, put_bytes
from dkdist.io._zarr.location.conditional import LeaseLostError, replace_object
from dkdist.io._zarr.location.disk import DiskStore, flush_store
from dkdist.io._zarr.location.exchange import StagingFolder, commit_lock, object_write_lock
from dkdist.io._zarr.location.icechunk import IcechunkPlace, commit_session, session_of
from dkdist.io._zarr.location.zipped import ZipStagingFolder, unpack_zip
from dkdist.io._zarr.packed import remove_obsolete
from dkdist.io.errors import DOCUMENT, StoreFormatError, parse_json

TOKEN_KEY = f"{COMMITS}/{DOCUMENT}"


@contextlib.contextmanager
def after_commit(label: str) -> Iterator[None]:
    """Add to errors of this block that the commit succeeded, so that callers do not repeat it."""
    message = f"{label} was committed before this error. Do not write the same sets again; open the store and check it."
    try:
        yield
    except Exception as error:
        text = f"{message} The error: {error}"
        code = error.errno if isinstance(error, OSError) else None
        raise (OSError(text) if code is None else OSError(code, text)) from error
    except BaseException as error:
        error.add_note(message)
        raise


class WriterLease:
    """Lease of a location that is written in place: appends, and new stores that are not on a disk."""

    isolated = False
    """Whether readers see nothing before the commit, so that committed objects may be overwritten."""

    def __init__(self, address: StoreLocation, generation: int | None) -> None:
        self.address, self._generation = address, generation
        self._token = group_document({"dkdist": {"writer": uuid.uuid4().hex}})
        self.store: Store = address.open(read_only=False)

    def begin(self, *, clear: bool) -> None:
        """Take over the location; with ``clear`` delete the commit first, then the other objects."""
        put_bytes(self.store, TOKEN_KEY, self._token)
        with self._exclusive():
            pass  # waits until writers that still saw the old token have finished their object
        if isinstance(self.store, DiskStore):
            self.store.sweep()
        if clear:
            sync(self.store.delete(DOCUMENT))
            for name in list_names(self.store, ""):
                if name != COMMITS:
                    sync(self.store.delete_dir(name))
            remove_obsolete(self.store)

    def declare(self, name: str, metadata: Metadata, length: int) -> None:
        """Prepare the write of chunks of an array up to a number of rows; most stores need nothing."""

    def require_held(self) -> None:
        """Raise if another writer has taken over or committed."""
        token, document = get_bytes(self.store, [TOKEN_KEY, DOCUMENT])
        self._require_generation(document, token_fits=token == self._token)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Guard the write of one object: check the lease, and on a disk prevent a takeover."""
        path = self.address.path
        with contextlib.nullcontext() if path is None else object_write_lock(path):
            self.require_held()
            yield

    def _require_generation(self, document: bytes | None, *, token_fits: bool = True) -> None:
        generation = None if document is None else parse_commit(document, self.address.label)[0].generation
        if not token_fits or generation != self._generation:
            raise StoreFormatError(
                f"another writer opened or committed {self.address.label} after this writer "
                f"(generation {generation}, expected {self._generation}). Nothing was committed. "
                "Append again, with one writer at a time."
            )

    def flush(self) -> None:
        """Flush the writes of this process to disk."""
        flush_store(self.store)

    def commit(self, document: bytes) -> None:
        """Make all written data visible and durable."""
        self._write_root(document)
        with after_commit(self.address.label):
            self._release()

    def _write_root(self, document: bytes) -> None:
        named_arrays(document, self.address.label)  # raises for names that readers reject
        self.flush()
        with self._exclusive():
            self.require_held()
            try:
                with (
                    self.store.committing() if isinstance(self.store, DiskStore) else contextlib.nullcontext()
                ):
                    replace_object(self.store, DOCUMENT, document, self._require_generation)
            except LeaseLostError:
                raise StoreFormatError(
                    f"another writer committed {self.address.label} at the same time, or the response to this commit "
                    "was lost. Open the store and check its content before appending again."
                ) from None

    def _release(self) -> None:
        """Flush the commit, and remove the token."""
        self.flush()
        with contextlib.suppress(OSError):
            put_bytes(self.store, TOKEN_KEY, group_document())
            if isinstance(self.store, DiskStore):
                self.store.sweep()

    def abort(self) -> None:
        """Remove the new files on a disk; elsewhere readers ignore them and the next writer replaces them."""
        with contextlib.suppress(OSError, StoreFormatError):
            if isinstance(self.store, DiskStore) and get_bytes(self.store, [TOKEN_KEY]) == [self._token]:
                put_bytes(self.store, TOKEN_KEY, group_document())
                self.store.withdraw()
                self.store.sweep()

    def _exclusive(self) -> contextlib.AbstractContextManager[None]:
        path = self.address.path
        return contextlib.nullcontext() if path is None else commit_lock(path)


class ReplacementLease(WriterLease):
    """Lease of a local path: a staging folder that replaces the path at the commit."""

    def __init__(
        self, address: StoreLocation, staging: StagingFolder, replaced: int, generation: int | None = None
    ) -> None:
        self._staging, self._target, self._replaced = staging, address, replaced
        super().__init__(StoreLocation(staging.store), generation)

    def begin(self, *, clear: bool) -> None:
        """Create the staging folder."""
        self._staging.make()
        try:
            super().begin(clear=False)
        except BaseException:
            self._staging.remove()
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Do nothing: the staging folder has one writer; `commit` checks it and the target."""
        yield

    def commit(self, document: bytes) -> None:
        """Complete the staged store, and move it to the path."""
        self._write_root(document)
        self._release()
        self._staging.prepare()
        with commit_lock(self._staging.path):
            generation = _replaceable_generation(self._target, overwrite=True)
            if generation != self._replaced:
                raise StoreFormatError(
                    f"another writer committed or removed {self._target.label} after this writer began (generation "
                    f"{generation}, expected {self._replaced}). Nothing was committed. Check the store first."
                )
            self._staging.publish()
            with after_commit(self._target.label):
                self._staging.finish()

    def abort(self) -> None:
        """Remove the staging folder."""
        if isinstance(self.store, DiskStore):
            self.store.shut()
        self._staging.remove()


class ZipLease(ReplacementLease):
    """Lease of a local zip file, which the commit replaces; an append begins with a copy of its content."""

    isolated = True

    def begin(self, *, clear: bool) -> None:
        """Create the staging folder; without ``clear`` copy the store to it."""
        super().begin(clear=clear)
        if not clear:
            try:
                archive = self._target.open(read_only=True)
                assert isinstance(archive, ZipStore)
                assert isinstance(self.store, DiskStore)
                with contextlib.closing(archive):
                    unpack_zip(archive, self.store, except_for=TOKEN_KEY)
            except BaseException:
                self.abort()
                raise


class SessionLease(WriterLease):
    """Lease of an icechunk session, whose commit makes all changes visible at once."""

    isolated = True

    def __init__(self, address: StoreLocation, generation: int | None) -> None:
        super().__init__(address, generation)
        self._session: Any = session_of(self.store)
        self._lengths, self._lock, self._begun = dict[str, int](), threading.Lock(), False

    def begin(self, *, clear: bool) -> None:
        """Check the session; with ``clear`` delete everything in it."""
        if self._session.has_uncommitted_changes:
            raise StoreFormatError(
                f"{self.address.label} has changes that are not committed, and dkdist commits the whole session. "
                "Commit or discard them first."
            )
        self._begun = True
        if clear:
            sync(self.store.clear())
        self._require_generation(get_bytes(self.store, [DOCUMENT])[0])

    def declare(self, name: str, metadata: Metadata, length: int) -> None:
        """Write the metadata of an array: icechunk accepts only chunks within the shape."""
        with self._lock:
            if length > self._lengths.get(name, 0):
                self._lengths[name] = length
                document = dump_json({**metadata, "shape": [length, *metadata["shape"][1:]]})
                put_bytes(self.store, f"{name}/{DOCUMENT}", document)

    def require_held(self) -> None:
        """Do nothing: the commit of the session detects other commits."""

    def commit(self, document: bytes) -> None:
        """Write the root document and commit the session."""
        self._write_root(document)
        commit = parse_commit(document, self.address.label)[0]
        message = f"dkdist: {commit.n_sets} sets, generation {commit.generation}"
        commit_session(self._session, self.address.label, message)

    def abort(self) -> None:
        """Discard the changes of the session since `begin`."""
        if self._begun and not self._session.read_only:
            self._session.discard_changes()


def append_lease(address: StoreLocation, generation: int) -> WriterLease:
    """Return a lease to append to the store of a generation."""
    address = address.for_writing()
    if address.zipped:
        return ZipLease(address, ZipStagingFolder(str(address.place)), generation, generation)
    kind = SessionLease if isinstance(address.place, IcechunkPlace) else WriterLease
    return kind(address, generation)


def new_lease(address: StoreLocation, *, overwrite: bool) -> tuple[WriterLease, int]:
    """Return a lease for a new store, and the generation of the store it replaces (0 for none).

    Raises FileExistsError if there is a committed store and `overwrite` is false, or other data.
    """
    if not address.zipped:
        address.require_writable()
    address = address.for_writing()
    replaced = _replaceable_generation(address, overwrite=overwrite)
    if address.path is not None:
        return ReplacementLease(address, StagingFolder(address.path), replaced), replaced
    if address.zipped:
        return ZipLease(address, ZipStagingFolder(str(address.place)), replaced), replaced
    if isinstance(address.place, IcechunkPlace):
        return SessionLease(address, None), replaced
    return WriterLease(address, None), replaced


def _is_token(document: bytes | None) -> bool:
    """Whether a document is the token of a writer, and not another group of this name."""
    try:
        return "writer" in parse_json(document or b"{}")["attributes"]["dkdist"]
    except (KeyError, TypeError, ValueError):
        return False


def _replaceable_generation(address: StoreLocation, *, overwrite: bool) -> int:
    """Return the generation of the store to be replaced, 0 for none; raises if not allowed."""
    path = address.path
    if path is not None and os.path.exists(path) and not os.path.isdir(path):
        raise FileExistsError(
            f"{address.label} is a file, not a store of sets, and is not replaced. Choose another location."
        )
    if address.zipped and not os.path.lexists(str(address.place)):
        return 0
    try:
        old = address.open(read_only=True)
    except zipfile.BadZipFile as error:
        raise FileExistsError(
            f"{address.label} is a file, not a zipped store of sets, and is not replaced. Choose another location."
        ) from error
    if path is not None and (not os.path.exists(path) or not os.listdir(path)):
        return 0
    token, document = get_bytes(old, [TOKEN_KEY, DOCUMENT])  # read first, to report errors of the storage
    if document is None and not _is_token(token):
        if path is None and sync(old.is_empty("")):
            return 0
        raise FileExistsError(
            f"{address.label} contains data that are not a store of sets and are not replaced. Choose another "
            "location."
        )
    if document is None:
        return 0
    try:
        generation = parse_commit(document, address.label)[0].generation
    except StoreFormatError as error:
        raise FileExistsError(
            f"{address.label} contains data that are not a store of sets ({error}) and are not replaced. Choose "
            "another location or delete them."
        ) from error
    if not overwrite:
        raise FileExistsError(
            f"{address.label} already contains a store of sets. Pass overwrite=True to replace it."
        )
    return generation
