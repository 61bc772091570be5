"""Downloads, from a server on this machine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pytest

import attribound as ab
from attribound.data import download
from attribound.data.download import fetch
from attribound.data.places import data_directory, obtain
from attribound.data.registry import Official

CONTENT = bytes(range(256)) * 1024
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
#: Nothing listens there: a machine without a network.
NOWHERE = "http://127.0.0.1:9/data.gz"


class Mirror(BaseHTTPRequestHandler):
    """Serves /good whole, /cut interrupted, /wrong with one byte changed, nothing else."""

    def do_GET(self) -> None:
        body = {"/good": CONTENT, "/cut": CONTENT, "/wrong": b"x" + CONTENT[1:]}.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:70_000] if self.path == "/cut" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def mirror() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def official(*urls: str, digest: str = DIGEST) -> Official:
    return Official("data.gz", digest, urls)


def check_nothing_left(folder: Path) -> None:
    assert not folder.exists() or list(folder.iterdir()) == []


def test_fetches_and_shows_progress(tmp_path, mirror, capsys) -> None:
    path = fetch(official(f"{mirror}/good"), tmp_path / "set")
    assert path == tmp_path / "set" / "data.gz"
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o644
    assert [file.name for file in path.parent.iterdir()] == ["data.gz"]
    output = capsys.readouterr()
    assert output.out == ""
    assert "data.gz" in output.err
    assert "262.1/262.1 kB" in output.err


def test_tries_the_next_mirror(tmp_path, mirror) -> None:
    urls = (NOWHERE, f"{mirror}/absent", f"{mirror}/wrong", f"{mirror}/cut", f"{mirror}/good")
    assert fetch(official(*urls), tmp_path).read_bytes() == CONTENT
    assert [file.name for file in tmp_path.iterdir()] == ["data.gz"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("wrong", "does not match the known hash"),
        ("cut", r"127.0.0.1:\d+: .*70000 bytes read"),
        ("absent", "404"),
    ],
)
def test_a_failed_download_leaves_nothing(tmp_path, mirror, address, reason) -> None:
    with pytest.raises(OSError, match=reason):
        fetch(official(f"{mirror}/{address}"), tmp_path)
    check_nothing_left(tmp_path)


def test_an_md5_is_compared_too(tmp_path, mirror) -> None:
    md5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    assert fetch(official(f"{mirror}/good", digest=md5), tmp_path / "a").exists()
    with pytest.raises(OSError, match="does not match"):
        fetch(official(f"{mirror}/wrong", digest=md5), tmp_path / "b")


def test_an_interrupted_download_leaves_nothing(tmp_path, mirror, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        assert len(list(tmp_path.iterdir())) == 1  # the temporary file is there
        raise KeyboardInterrupt

    monkeypatch.setattr(download._DownloadBar, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(official(f"{mirror}/good"), tmp_path)
    check_nothing_left(tmp_path)


def test_the_check_sees_a_rest(tmp_path) -> None:
    (tmp_path / "data.gz.part").write_bytes(CONTENT[:100])
    with pytest.raises(AssertionError):
        check_nothing_left(tmp_path)


def test_what_is_there_is_not_fetched(tmp_path) -> None:
    (tmp_path / "installed").mkdir()
    for place in (tmp_path / "installed", tmp_path):
        for name in ("data", "data.gz"):
            (place / name).write_bytes(b"")
            found = obtain(official(NOWHERE), tmp_path, installed=[tmp_path / "installed"])
            assert found == place / name


def test_without_a_network_the_error_says_what_to_put_where(tmp_path) -> None:
    folder = tmp_path / "mnist"
    message = (
        f"^mnist: expected data.gz in {folder}, got no such file, and no download: "
        r"127.0.0.1:9: \[Errno \d+\] Connection refused; "
        f"fetch {NOWHERE} and put it in {folder}, or set ATTRIBOUND_DATA .* has mnist/data.gz$"
    )
    with pytest.raises(ab.InputError, match=message):
        obtain(official(NOWHERE), folder)
    check_nothing_left(folder)


def test_no_download_if_none_is_wanted(tmp_path, mirror) -> None:
    with pytest.raises(ab.InputError, match=r"got no such file; fetch .* and put it in"):
        obtain(official(f"{mirror}/good"), tmp_path / "set", download=False)
    check_nothing_left(tmp_path / "set")


def test_a_directory_that_cannot_be_written_to(tmp_path, mirror) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ab.InputError, match=r"no such file, and no download: .*; fetch"):
        obtain(official(f"{mirror}/good"), tmp_path / "file" / "mnist")


def test_the_data_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTRIBOUND_DATA", str(tmp_path))
    assert data_directory() == tmp_path
    assert data_directory(tmp_path / "root") == tmp_path / "root"
    monkeypatch.setenv("ATTRIBOUND_DATA", "~/mine")
    assert data_directory() == Path.home() / "mine"
    monkeypatch.delenv("ATTRIBOUND_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_directory() == platformdirs.user_cache_path("attribound", appauthor=False) / "data"
