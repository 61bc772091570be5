"""Fetch official files: checked, whole or not at all, with progress.

By pooch: it streams into a temporary file beside the target, compares the
checksum and renames, and it is what SciPy and scikit-image use for the same.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attribound.basics.later import Later
from attribound.basics.packages import package
from attribound.data.registry import Official

if TYPE_CHECKING:
    from rich import console, progress
else:
    console, progress = map(Later, ("rich.console", "rich.progress"))

_CHUNK = 2**16
_TIMEOUT_SECONDS = 30


def fetch(file: Official, folder: Path) -> Path:
    """Download ``file`` into ``folder`` from the first mirror that has it, and return its path.

    A file that is incomplete, or whose checksum is not the official one, is
    never left in ``folder``.

    Raises:
        OSError: no mirror gave the file; the message has the reason of each.
        InputError: pooch is not installed.
    """
    pooch = package("pooch", extra="data", purpose=f"downloading {file.name}")
    # Its own messages repeat what the progress bar says.
    pooch.get_logger().setLevel(logging.WARNING)
    reasons = []
    for url in file.urls:
        try:
            return _fetch_from(url, file, folder, pooch)
        # ValueError is a wrong checksum.
        except (OSError, ValueError) as error:  # noqa: PERF203 - there are few mirrors
            reasons.append(f"{urlsplit(url).netloc}: {_root(error)}")
    raise OSError("; ".join(reasons))


def _root(error: BaseException) -> BaseException:
    """What an error began with: the layers above repeat the address three times."""
    return error if error.__context__ is None else _root(error.__context__)


def _fetch_from(url: str, file: Official, folder: Path, pooch: Any) -> Path:
    with _DownloadBar(file.name) as bar:
        downloader = pooch.HTTPDownloader(
            progressbar=bar,
            chunk_size=_CHUNK,
            timeout=_TIMEOUT_SECONDS,
            # Else some servers send .gz files as if they were compressed texts.
            headers={"Accept-Encoding": "identity"},
        )
        path = Path(
            pooch.retrieve(url, file.digest, fname=file.name, path=folder, downloader=downloader)
        )
    # Temporary files are private; a data directory may be shared.
    path.chmod(0o644)
    return path


class _DownloadBar:
    """A progress bar on standard error, as pooch wants it."""

    def __init__(self, name: str) -> None:
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=console.Console(stderr=True),
        )
        self._task = self._progress.add_task(name, total=None)
        #: Bytes of the file; pooch sets it, and leaves zero if the server does not say.
        self.total = 0

    def __enter__(self) -> _DownloadBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, size: int) -> None:
        """``size`` more bytes have come."""
        self._progress.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        """Start from zero; pooch does so to show the exact size at the end."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Pooch is done; the context manager stops the bar."""
