"""Read members of a tar archive straight into memory, after checking the archive."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zlib
from pathlib import Path

from attribound.basics.errors import InputError


def read_members(path: Path, digest: str, pattern: str) -> dict[str, bytes]:
    """Contents of the regular files whose whole name matches ``pattern``, by name.

    Nothing is unpacked, so no member can land anywhere. ``digest`` is
    ``algorithm:hexadecimal``, of the archive.

    Raises:
        InputError: the archive is not the official one, or cannot be read.
    """
    raw = path.read_bytes()
    algorithm, _, expected = digest.partition(":")
    found = hashlib.new(algorithm, raw, usedforsecurity=False).hexdigest()
    if found != expected:
        raise InputError(
            str(path),
            expected=f"the official archive ({digest})",
            got=f"{algorithm}:{found}, {len(raw)} bytes",
            remedy="delete it, so that it is fetched again; or unpack it, if you trust it",
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            return {
                member.name: content.read()
                for member in archive
                if member.isfile()
                and re.fullmatch(pattern, member.name)
                and (content := archive.extractfile(member)) is not None
            }
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(
            str(path), expected="a whole tar archive", got=str(error), remedy="fetch it again"
        ) from error
