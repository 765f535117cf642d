"""Where a writer writes, and how what it wrote becomes visible.

A token is kept in the place while it is written to: of two writers the later one goes on, and the earlier is
refused before its next write. On a local disk a new store grows in a hidden directory beside its path and is
renamed at the commit, so that the store it replaces stays readable until then. Anywhere else, and for
appends, the root document is the commit: written last, in one piece.

Where the store can replace an object only if it is still the one that was seen (object stores reached through
obstore), two writers can never both commit. Elsewhere (local disks, memory, s3fs) a writer looks at the token
and the last commit right before its own, and a moment remains in which two that end together overtake each
other. Chunks have no such guard anywhere: the token is looked at before they are written, and "one writer at a
time" remains a rule that users keep.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid

from zarr.abc.store import Store
from zarr.core.sync import sync

from dkdist.store.address import Address, get_bytes, list_names, put_bytes
from dkdist.store.conditional import Overtaken, replace_object
from dkdist.store.errors import StoreFormatError
from dkdist.store.layout import DOCUMENT, parse_commit
from dkdist.store.names import with_names

TOKEN = ".dkdist-writer"


class WritingPlace:
    """The store a writer writes to in place: all appends, and new stores that are not on a local disk."""

    def __init__(self, address: Address, generation: int | None) -> None:
        self.address, self._generation = address, generation
        self._token = uuid.uuid4().hex.encode()
        self.store: Store = address.open(read_only=False)

    def begin(self, *, clear: bool) -> None:
        """Take the place over, and empty it first if asked to: the commit goes first, what it named then."""
        put_bytes(self.store, TOKEN, self._token)
        if clear:
            sync(self.store.delete(DOCUMENT))
            for name in list_names(self.store, ""):
                if name != TOKEN:
                    sync(self.store.delete_dir(name))

    def require_mine(self) -> None:
        """Refuse to write on if another writer has taken the place over, or committed."""
        token, document = get_bytes(self.store, [TOKEN, DOCUMENT])
        self._require_generation(document, token_fits=token == self._token)

    def _require_generation(self, document: bytes | None, *, token_fits: bool = True) -> None:
        found = None if document is None else parse_commit(document, self.address.label)[0].generation
        if not token_fits or found != self._generation:
            raise StoreFormatError(
                f"another writer opened or committed {self.address.label} since this one began "
                f"(generation {found}, was {self._generation}): nothing of this writer was committed. "
                "Append again, one writer at a time"
            )

    def commit(self, document: bytes) -> None:
        """Make everything written visible."""
        named = with_names(document, self.store, self.address.label)
        self.require_mine()
        try:
            replace_object(self.store, DOCUMENT, named, self._require_generation)
        except Overtaken:
            raise StoreFormatError(
                f"another writer committed {self.address.label} at the same moment, or the answer to this commit "
                "was lost: open the store and look at what it holds before appending again"
            ) from None
        with contextlib.suppress(OSError):  # committed; who may write may not be allowed to delete
            sync(self.store.delete(TOKEN))

    def abort(self) -> None:
        """Leave what was written as it is: no reader looks at it, and the next writer starts over it."""


class ReplacingPlace(WritingPlace):
    """A hidden directory beside a local path, which takes the path's place at the commit."""

    def __init__(self, address: Address, path: str, replaced: int) -> None:
        folder, name = os.path.split(path)
        self._path, self._replaced = path, replaced
        self._target = address
        self._hidden = os.path.join(folder, f".{name}.writing")
        super().__init__(Address(self._hidden), None)

    def begin(self, *, clear: bool) -> None:
        """Remove what an interrupted writer left in the hidden directory, and take it."""
        shutil.rmtree(self._hidden, ignore_errors=True)
        super().begin(clear=False)

    def commit(self, document: bytes) -> None:
        """Complete the hidden store, and put it where the old one is."""
        found = 0
        if os.path.exists(self._path):
            (there,) = get_bytes(self._target.open(read_only=True), [DOCUMENT])
            found = 0 if there is None else parse_commit(there, self._target.label)[0].generation
        if found != self._replaced:
            raise StoreFormatError(
                f"another writer committed {self._target.label} since this one began (generation {found}, "
                f"was {self._replaced}): nothing of this writer was committed. Look at it first"
            )
        super().commit(document)
        old = _moved_aside(self._path)
        if os.path.exists(self._path):
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self._path, old)
        os.rename(self._hidden, self._path)
        shutil.rmtree(old, ignore_errors=True)

    def abort(self) -> None:
        """Remove the hidden directory, if it is still this writer's."""
        with contextlib.suppress(OSError):
            if get_bytes(self.store, [TOKEN]) == [self._token]:
                shutil.rmtree(self._hidden, ignore_errors=True)


def new_place(address: Address, *, overwrite: bool) -> tuple[WritingPlace, int]:
    """A place for a new store, and the generation of the store it replaces (0 for none).

    Raises FileExistsError if there is a committed store and `overwrite` is false, or if there is anything
    else than a store of this format.
    """
    address.require_writable()
    old = address.open(read_only=True)
    if address.path is not None and not os.path.exists(address.path):
        if os.path.exists(_moved_aside(address.path)):  # a writer was killed between its two renames
            os.rename(_moved_aside(address.path), address.path)
            return new_place(address, overwrite=overwrite)
        return ReplacingPlace(address, address.path, 0), 0
    token, document = get_bytes(old, [TOKEN, DOCUMENT])
    occupied = not sync(old.is_empty("")) if address.path is None else _has_entries(address.path)
    if document is None and token is None and occupied:
        raise FileExistsError(
            f"{address.label} is not empty and holds no store of sets: refusing to replace it. "
            "Choose another place"
        )
    replaced = 0 if document is None else _generation_to_replace(document, address.label, overwrite)
    if address.path is not None:
        return ReplacingPlace(address, address.path, replaced), replaced
    return WritingPlace(address, None), replaced


def _moved_aside(path: str) -> str:
    """Where the old store is for the moment between the two renames of a replacement."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.replaced")


def _has_entries(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))


def _generation_to_replace(document: bytes, label: str, overwrite: bool) -> int:
    try:
        generation = parse_commit(document, label)[0].generation
    except StoreFormatError as error:
        raise FileExistsError(
            f"{label} holds something that is not a store of sets ({error}): refusing to replace it. "
            "Choose another place, or delete it"
        ) from error
    if not overwrite:
        raise FileExistsError(f"{label} already holds a store of sets: pass overwrite=True to replace it")
    return generation
