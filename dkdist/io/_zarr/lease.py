"""Where a writer writes, and how what it wrote becomes visible.

A token is kept in the place while it is written to: of two writers the later one goes on, and the earlier is
refused before its next write. On a local disk a new store grows in a hidden folder of its writer beside its path,
and the two are exchanged at the commit in one step: the store it replaces stays readable until then, and of two that
replace it at once one wins as a whole and the other is refused. Anywhere else, and for appends, the root document
is the commit: written last, in one piece.

On a disk everything is flushed before the commit, and the commit after it, so that a loss of power leaves the last
commit or the one before it, whole.

Where the store can replace an object only if it is still the one that was seen (object stores reached through
obstore), two writers can never both commit, and neither can they where a folder can be locked (local disks). Elsewhere
(memory, s3fs, some network disks) a writer looks at the token and the last commit right before its own, and a moment
remains in which two that end together overtake each other. So it is with chunks: before each the token is looked at,
and where a folder can be locked the writer that takes a place over waits until what others are writing at that moment
is written. Elsewhere "one writer at a time" remains a rule that users keep.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

from zarr.abc.store import Store
from zarr.core.sync import sync

from dkdist.io._zarr.layout import named_arrays, parse_commit
from dkdist.io._zarr.location.address import StoreLocation, get_bytes, list_names, put_bytes
from dkdist.io._zarr.location.conditional import LeaseLostError, replace_object
from dkdist.io._zarr.location.disk import DiskStore, flush_store
from dkdist.io._zarr.location.exchange import StagingFolder, commit_lock, object_write_lock
from dkdist.io.errors import DOCUMENT, StoreFormatError

TOKEN_KEY = ".dkdist-writer"


@contextlib.contextmanager
def after_commit(label: str) -> Iterator[None]:
    """Say in errors of this block that the commit preceded them, so that nobody appends the same sets again."""
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
    """A writer's right to a place that it writes to as it is: all appends, and new stores that are not on a disk."""

    def __init__(self, address: StoreLocation, generation: int | None) -> None:
        self.address, self._generation = address, generation
        self._token = uuid.uuid4().hex.encode()
        self.store: Store = address.open(read_only=False)

    def begin(self, *, clear: bool) -> None:
        """Take the place over, and empty it first if asked to: the commit goes first, what it named then."""
        put_bytes(self.store, TOKEN_KEY, self._token)
        with self._alone():
            pass  # whoever looked at the token before has written its object now
        if isinstance(self.store, DiskStore):
            self.store.sweep()
        if clear:
            sync(self.store.delete(DOCUMENT))
            for name in list_names(self.store, ""):
                if name != TOKEN_KEY:
                    sync(self.store.delete_dir(name))

    def require_mine(self) -> None:
        """Refuse to write on if another writer has taken the place over, or committed."""
        token, document = get_bytes(self.store, [TOKEN_KEY, DOCUMENT])
        self._require_generation(document, token_fits=token == self._token)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While one object is written: refuses as `require_mine`, and on a disk lets nobody take over meanwhile."""
        path = self.address.path
        with contextlib.nullcontext() if path is None else object_write_lock(path):
            self.require_mine()
            yield

    def _require_generation(self, document: bytes | None, *, token_fits: bool = True) -> None:
        found = None if document is None else parse_commit(document, self.address.label)[0].generation
        if not token_fits or found != self._generation:
            raise StoreFormatError(
                f"another writer opened or committed {self.address.label} since this one began "
                f"(generation {found}, was {self._generation}): nothing of this writer was committed. "
                "Append again, one writer at a time"
            )

    def flush(self) -> None:
        """Make what this process wrote durable; parts that others write are flushed by them."""
        flush_store(self.store)

    def commit(self, document: bytes) -> None:
        """Make everything written visible, and durable."""
        self._write_root(document)
        with after_commit(self.address.label):
            self._release()

    def _write_root(self, document: bytes) -> None:
        """Flush what was written, and write the root document."""
        named_arrays(document, self.address.label)  # refuses names that no reader would take
        self.flush()
        with self._alone():
            self.require_mine()
            try:
                with self.store.settling() if isinstance(self.store, DiskStore) else contextlib.nullcontext():
                    replace_object(self.store, DOCUMENT, document, self._require_generation)
            except LeaseLostError:
                raise StoreFormatError(
                    f"another writer committed {self.address.label} at the same moment, or the answer to this commit "
                    "was lost: open the store and look at what it holds before appending again"
                ) from None

    def _release(self) -> None:
        """Flush the commit, and remove the token."""
        self.flush()
        with contextlib.suppress(OSError):  # committed; who may write may not be allowed to delete
            sync(self.store.delete(TOKEN_KEY))
            if isinstance(self.store, DiskStore):
                self.store.sweep()

    def abort(self) -> None:
        """Remove the files that this writer made on a disk; elsewhere no reader looks at them, and the next writer
        starts over them."""
        with contextlib.suppress(OSError, StoreFormatError):
            if isinstance(self.store, DiskStore) and get_bytes(self.store, [TOKEN_KEY]) == [self._token]:
                self.store.withdraw()
                self.store.sweep()

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        path = self.address.path
        return contextlib.nullcontext() if path is None else commit_lock(path)


class ReplacementLease(WriterLease):
    """A claim to a local path: a hidden folder beside it, which takes its place at the commit."""

    def __init__(self, address: StoreLocation, path: str, replaced: int) -> None:
        self._hidden, self._target, self._replaced = StagingFolder(path), address, replaced
        super().__init__(StoreLocation(self._hidden.store), None)

    def begin(self, *, clear: bool) -> None:
        """Make the hidden folder."""
        self._hidden.make()
        try:
            super().begin(clear=False)
        except BaseException:
            self._hidden.remove()
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Nothing is looked at: nobody else writes to a folder of this writer's own; the commit looks whether it is
        there, and the target as it was."""
        yield

    def commit(self, document: bytes) -> None:
        """Complete the hidden store, and put it where the old one is."""
        self._write_root(document)
        self._release()
        with commit_lock(self._hidden.path):
            found = _replaceable_generation(self._target, overwrite=True)
            if found != self._replaced:
                raise StoreFormatError(
                    f"another writer committed {self._target.label}, or it was removed, since this one began "
                    f"(generation {found}, was {self._replaced}): nothing of this writer was committed. "
                    "Look at it first"
                )
            self._hidden.publish()
            with after_commit(self._target.label):
                self._hidden.settle()

    def abort(self) -> None:
        """Remove the hidden folder."""
        if isinstance(self.store, DiskStore):
            self.store.shut()
        self._hidden.remove()


def new_lease(address: StoreLocation, *, overwrite: bool) -> tuple[WriterLease, int]:
    """A claim to the place of a new store, and the generation of the store it replaces (0 for none).

    Raises FileExistsError if there is a committed store and `overwrite` is false, or if there is anything
    else than a store of this format.
    """
    address.require_writable()
    replaced = _replaceable_generation(address, overwrite=overwrite)
    if address.path is not None:
        return ReplacementLease(address, address.path, replaced), replaced
    return WriterLease(address, None), replaced


def _replaceable_generation(address: StoreLocation, *, overwrite: bool) -> int:
    """The generation of the store at an address that may be replaced, 0 where nothing is; raises if it may not."""
    path = address.path
    if path is not None and os.path.exists(path) and not os.path.isdir(path):
        raise FileExistsError(
            f"{address.label} is not empty and holds no store of sets, for it is a file: refusing to replace it. "
            "Choose another place"
        )
    old = address.open(read_only=True)
    if path is not None and (not os.path.exists(path) or not os.listdir(path)):
        return 0
    token, document = get_bytes(
        old, [TOKEN_KEY, DOCUMENT]
    )  # first of all: it names what is wrong with a storage
    if document is None and token is None:
        if path is None and sync(old.is_empty("")):
            return 0
        raise FileExistsError(
            f"{address.label} is not empty and holds no store of sets: refusing to replace it. "
            "Choose another place"
        )
    if document is None:
        return 0
    try:
        generation = parse_commit(document, address.label)[0].generation
    except StoreFormatError as error:
        raise FileExistsError(
            f"{address.label} holds something that is not a store of sets ({error}): refusing to replace it. "
            "Choose another place, or delete it"
        ) from error
    if not overwrite:
        raise FileExistsError(
            f"{address.label} already holds a store of sets: pass overwrite=True to replace it"
        )
    return generation
