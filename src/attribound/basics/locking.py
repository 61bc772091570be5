"""One writer a run: a lock that the system releases with the process, however that ends."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from attribound.basics.errors import InputError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from typing import TextIO

LOCK = "lock"
#: Far behind the text: Windows forbids others to read what is locked.
_LOCKED_BYTE = 1 << 20


class Lock:
    """The right to write into a folder, held from construction until ``release``.

    ``flock`` on POSIX, ``msvcrt.locking`` on Windows: both end with the process, also
    by ``kill -9`` or a power cut, so that no stale lock is ever to be removed by hand.
    The file itself stays; who holds it is written inside for the message only. On
    network file systems it is as good as their ``flock`` (NFSv4 and Lustre with
    ``-o flock`` have it; where it is not supported the system's error is shown).

    Raises:
        InputError: another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        # Opened for appending: until the lock is ours, the text belongs to its holder.
        self._file: TextIO | None = path.open("a+", encoding="utf-8")
        try:
            _lock(self._file)
        except (BlockingIOError, PermissionError) as error:
            self._file.seek(0)
            holder = self._file.read().strip()
            self.release()
            raise InputError(
                f"run {folder}",
                expected="one process that writes it",
                got=f"another one at it ({holder or 'unknown'})",
                remedy="wait until it is done, stop it, or choose another folder",
            ) from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()

    def release(self) -> None:
        """Give the lock back; again does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def held(self) -> bool:
        """Whether it has not been released."""
        return self._file is not None


def _lock(file: TextIO) -> None:
    if sys.platform == "win32":
        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
