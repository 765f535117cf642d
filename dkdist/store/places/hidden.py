"""A writer's own hidden folder beside a path, in which a new store grows until it takes the path's place.

    .NAME.writing-TOKEN/owner     the machine's name; locked while the writer lives
    .NAME.writing-TOKEN/store     the new store
    .NAME.writing-TOKEN/old       the old one, between two moves: only where names cannot be exchanged

Every writer has a folder of its own, so that two at once never mix. What a writer left that was killed is removed by
a later one to the same path, on the same machine, once nobody holds its lock; where files cannot be locked it stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import uuid

from dkdist.plain.files import CAREFUL, CREATE, flush_folder, write_all
from dkdist.store.places import exchange
from dkdist.store.refusals import StoreFormatError

NAMELESS_SECONDS = 3600.0  # until a folder without a machine's name is nobody's: naming takes microseconds
MAKING = 5
TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


class HiddenFolder:
    """The folder of one writer to a path; made by `make`, gone after `publish` or `remove`. Light to pickle."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)  # a link goes on leading to its store
        self._folder = f"{exchange.hidden_prefix(self.path)}{uuid.uuid4().hex}"
        self._owner: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_owner": None}  # the lock stays with the process that made it

    @property
    def store(self) -> str:
        """Where the new store grows."""
        return os.path.join(self._folder, exchange.STORE)

    def make(self) -> None:
        """Remove what dead writers left, and make the folder; or raise and leave nothing."""
        try:
            self._make()
        except OSError as error:
            self.remove()
            raise type(error)(
                error.errno,
                f"cannot write beside {self.path} ({error.strerror or error}): nothing was committed. Make room, or "
                "choose another place where you may write",
            ) from error

    def _make(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        for folder in exchange.folders_beside(self.path):
            _clear(folder)
        self._own()
        assert self._owner is not None
        exchange.lock(self._owner, wait=False)
        write_all(self._owner, exchange.host())
        os.mkdir(self.store)

    def _own(self) -> None:
        """Make the file that says whose folder this is; others may remove the folder as long as it is empty."""
        for _ in range(MAKING):
            with contextlib.suppress(FileNotFoundError):
                os.mkdir(self._folder)
                self._owner = os.open(os.path.join(self._folder, exchange.OWNER), CREATE | CAREFUL, 0o666)
                return
        raise FileNotFoundError(errno.ENOENT, f"others keep removing {self._folder}")

    def publish(self) -> None:
        """Let the new store take the path's place, in one step; or raise and change nothing."""
        try:
            exchange.put_in_place(self._folder, self.path)
        except OSError as error:
            if error.errno in TAKEN:
                raise StoreFormatError(
                    f"another writer committed {self.path} since this one began: nothing of this writer was committed. "
                    "Look at it first"
                ) from error
            raise OSError(
                error.errno,
                f"cannot put the new store at {self.path} ({error.strerror or error}): what was there is as it was. "
                "Choose another place, or write to a folder inside it",
            ) from error

    def settle(self) -> None:
        """Make the exchange of `publish` durable, and remove the old store."""
        flush_folder(os.path.dirname(self.path))
        flush_folder(self._folder)
        self.remove()

    def remove(self) -> None:
        """Remove the folder and what is in it; what cannot be removed is left to the next writer."""
        _removed(self._folder)
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None


def _clear(folder: str) -> None:
    """Remove a folder that is empty, in one step lest somebody moves in, or whose writer is dead."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
        return
    if _is_dead(folder):
        _removed(folder)


def _is_dead(folder: str) -> bool:
    if exchange.is_free(folder):
        return True
    with contextlib.suppress(OSError):
        old = time.time() - os.lstat(folder).st_mtime > NAMELESS_SECONDS
        return old and not exchange.is_named(folder)
    return False


def _removed(folder: str) -> None:
    """Remove a folder, the owner's file last, so that what a kill leaves of it can still be told to be dead."""
    for name in (exchange.OLD, exchange.STORE):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    with contextlib.suppress(OSError):
        if set(os.listdir(folder)) <= {exchange.OWNER}:
            shutil.rmtree(folder)
