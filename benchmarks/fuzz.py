"""Hostile files and wrong uses, one after another, given to the command line: ``make fuzz``.

A case writes a file that a stranger could have sent, and gives the command that reads it: exit
code 2 and one line, in seconds and little memory, no code of the file run. Tests try them, too.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

SECONDS, MEGABYTES = 5.0, 500.0
#: What code of a hostile file would leave behind.
MARK = "executed"
Case = Callable[[Path], list[str]]
_MODEL = "--model=zoo:fashion-mnist/at-mlp"
_FINE = (_MODEL, "--data=fashion-mnist-sample", "--limit=2", "--workers=1", "--out=OUT")


def _npy(shape: tuple[int, ...], content: bytes = b"", dtype: str = "<f4") -> bytes:
    out = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + content


def _given(name: str, write: Callable[[Path], None], words: list[str]) -> Case:
    def made(folder: Path) -> list[str]:
        write(folder / name)
        return ["audit", *words[:-1], f"{words[-1]}{folder / name}", f"--out={folder / 'out'}"]

    return made


def _data(name: str, write: Callable[[Path], None]) -> Case:
    return _given(name, write, [_MODEL, "--data="])


def _model(name: str, write: Callable[[Path], None]) -> Case:
    return _given(name, write, ["--data=digits", "--model="])


def _config(text: str, name: str = "audit.toml") -> Case:
    def made(folder: Path) -> list[str]:
        (folder / name).write_text(text.replace("MARK", str(folder / MARK)))
        return ["audit", f"--config={folder / name}", f"--out={folder / 'out'}"]

    return made


def _zipped(members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", how) as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return write


def _npz_bomb(path: Path) -> None:
    zeros = bytes(2**24)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            for content in (_npy((2**16, 2**14)), *[zeros] * 2**6):  # 1 GiB of the 4 it says
                member.write(content)
        archive.writestr("y.npy", _npy((2**16,), bytes(2**18), "<i4"))


def _table(names: list[str], rows: list[list[str]]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        numbered = [f"{name}{i}" if len(names) > 9 else name for i, name in enumerate(names)]
        path.write_text("\n".join(",".join(row) for row in [numbered, *rows]))

    return write


def _parquet_bomb(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("label", pa.int64()), ("f", pa.float32())])
    rows = pa.table({"label": np.zeros(2**20, np.int64), "f": np.zeros(2**20, np.float32)}, schema)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for _ in range(2**6):
            writer.write_table(rows)


def _parquet_shared(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    one, labels = pa.array([bytes(2**20)]), np.zeros(2**14, np.int64)
    image = pa.DictionaryArray.from_arrays(np.zeros(2**14, np.int32), one)
    pq.write_table(pa.table({"label": labels, "image": image}), path, compression="zstd")


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(2**16))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _images(write: Callable[[Path], object]) -> Case:
    def written(path: Path) -> None:
        (path / "cat").mkdir(parents=True)
        write(path / "cat" / "0.png")

    return _data("images", written)


def _idx_bomb(path: Path) -> None:
    path.mkdir()
    for name in ("images-idx3", "labels-idx1"):
        with gzip.open(path / f"t10k-{name}-ubyte.gz", "wb") as file:
            file.write(b"\0\0\x08\x03" + struct.pack(">III", 2**20, 2**6, 2**5))
            for _ in range(2**5):
                file.write(bytes(2**24))


def _safetensors(config: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import torch
        from safetensors.torch import save_file

        save_file({"w": torch.zeros(1)}, path, {"attribound.config": config})

    return write


def _onnx(inputs: str, body: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import onnx

        head = '<ir_version: 9, opset_import: ["": 17]>'
        graph = f"g (float[batch, {inputs}] x) => (float[batch, m] y) {body}"
        onnx.save(onnx.parser.parse_model(head + graph), path)

    return write


_GROWING = """<int64[2] s = {100000, 1000000}> {
c = ConstantOfShape(s) r = ReduceSum<keepdims: int = 0>(c) y = Add(x, r) }"""


def _run(**changes: object) -> Case:
    """A whole run.json with the right hashes, which anyone can compute."""

    def made(folder: Path) -> list[str]:
        from attribound.auditing.manifest import Manifest

        entries: dict[str, object] = {
            "settings": {"model": f"os:mkdir?{json.dumps({'path': str(folder / MARK)})}"},
            "model": {"name": "m", "fingerprint": "sha256:0"},
            "data": {"name": "d", "fingerprint": "sha256:0", "classes": [], "shape": [1]},
            "versions": {},
            "samples": 4,
            "batch": 2,
            "rows_per_sample": 1,
            "created": "2026",
        }
        (folder / "out").mkdir()
        Manifest(**{**entries, **changes}).write(folder / "out")  # type: ignore[arg-type]
        words = ["audit", "--data=digits", f"--out={folder / 'out'}", "--resume"]
        return ["report", str(folder / "out")] if changes else words

    return made


_CALIBRATION = """{"format": "attribound calibration", "format_version": 3, "version": "1",
"alpha": 0.5, "model": "m", "target": "predicted", "subject": "yours", "original": null,
"attribution": {}, "attack": {}, "code": {}, "ball": {"kind": "sly:Ball"},
"base": {"kind": "first_order"},
"groups": [{"class": null, "samples": 1, "factor": 1.0, "scores": [1.0]}]}"""


def _calibration(folder: Path) -> list[str]:
    (folder / "sly.py").write_text(f"import os\nos.mkdir({str(folder / MARK)!r})\n")
    (folder / "c.json").write_text(_CALIBRATION)
    words = [word.replace("OUT", str(folder / "out")) for word in ("audit", *_FINE)]
    return [*words, f"--set=calibrated.folder={folder / 'c.json'}"]


_CALL = 'os:mkdir?{\\"path\\": \\"MARK\\"}'
CASES: dict[str, Case] = {
    "factory in TOML": _config(f'model = "{_CALL}"\ndata = "digits"'),
    "factory in run.json": _run(),
    "class in TOML": _config(
        'model = "zoo:fashion-mnist/at-mlp"\ndata = "digits"\nballs = "antigravity:B"'
    ),
    "class in a calibration": _calibration,
    "TOML of deep brackets": _config("x = " + "[" * 20_000),
    "run.json of 10^11 samples": _run(samples=10**11),
    "run.json of batches of 0": _run(batch=0),
    "run.json of texts for numbers": _run(samples="4"),
    "run.json of deep brackets": _config("[" * 100_000, "run.json"),
    "TOML of keys of 100 parts": _config("a" + ".a" * 100 + " = 1"),
    "TOML of a number of 5,000 digits": _config("x = 1" + "0" * 5_000),
    "CSV of 70,000 columns": _data("x.csv", _table(["c"] * 70_000, [["1"] * 70_000])),
    "CSV of a label of 5,000 digits": _data("x.csv", _table(["a", "y"], [["1", "9" * 5_000]])),
    "CSV of 20,000 categories": _data(
        "x.csv", _table(["a", "y"], [[f"c{i}", str(i % 2)] for i in range(20_000)])
    ),
    "PNG of 2^20 x 1": _images(lambda path: path.write_bytes(_png(2**20, 1))),
    "npz that claims 10^11 values": _data(
        "x.npz", _zipped({"x.npy": _npy((10**6, 10**5)), "y.npy": _npy((1,), bytes(4))})
    ),
    "npz of 2^124 values": _data("x.npz", _zipped({"x.npy": _npy((2**62, 2**62))})),
    "npz bomb": _data("x.npz", _npz_bomb),
    "npz packed by nobody": _data("x.npz", _zipped({"x.npy": b"\x93NUMPY\x01\x00"})),
    "Parquet bomb": _data("x.parquet", _parquet_bomb),
    "Parquet of one shared image": _data("x.parquet", _parquet_shared),
    "PNG of 13,000 x 13,000": _images(lambda path: path.write_bytes(_png(13_000, 13_000))),
    "FIFO named .png": _images(os.mkfifo),
    "idx.gz bomb": _data("idx", _idx_bomb),
    "safetensors, deep config": _model("n.safetensors", _safetensors('{"a":' * 3_000)),
    "safetensors, deeper config": _model("n.safetensors", _safetensors("[" * 100_000)),
    "safetensors, wide config": _model(
        "n.safetensors", _safetensors('{"architecture": "mlp", "hidden": [1' + ",1" * 10**6 + "]}")
    ),
    "safetensors, huge layer": _model(
        "n.safetensors", _safetensors('{"architecture": "mlp", "features": 1' + "0" * 30 + "}")
    ),
    "safetensors, terabytes": _model(
        "n.safetensors", _safetensors('{"architecture": "mlp", "hidden": [1000000, 1000000]}')
    ),
    "ONNX of huge inputs": _model("n.onnx", _onnx("100000, 100000", "{ y = Flatten(x) }")),
    "ONNX that grows": _model("n.onnx", _onnx("4", _GROWING)),
    "ONNX of random bytes": _model("n.onnx", lambda path: path.write_bytes(bytes(range(256)))),
    "pt2 of compressed members": _model("n.pt2", _zipped({"a/b": bytes(2**20)})),
    "pt2 with a pickle": _model("n.pt2", _zipped({"a/data.pkl": b"\x80"}, zipfile.ZIP_STORED)),
}

#: Each by itself added to an audit that would be fine.
OPTIONS = """
--model=zoo:nobody/knows --model=none.onnx --data=none.npz --split=middle --limit=-1 --eps=-0.1
--eps=nan --eps=a,b --ball=cube --ball=lp:p=0.5 --ball=l2:epsilon=True --attribution=magic
--attribution=ig:steps=0 --attribution=ig:steps=1.5 --attribution=ig:baseline=text --claim=firm
--claim=mean_value:shells=1.5 --set=batch=0 --set=calibrated.folder=none --smooth=-3
--fail-on=firm --patience=nan --attribution=ig:steps=1000000000000 --set=device=gpu
--attribution=smooth_grad:samples=100000000000 --attribution=expected_gradients:samples=1e9
--set=attacks.a=pgd:steps=-1 --set=attacks.a=ifia:objective=(top_k:k=1.5) --claim=certified:nodes=0
"""
COMMANDS = """audit --data=digits --out=OUT|report none|compare none nothing|runs none
calibrate none --out=OUT|train --out=OUT --data=digits --method=magic|zoo show nobody/knows
train --out=OUT --data=digits --set=optimiser.lr=-1"""


def _use(*words: str) -> Case:
    return lambda folder: [word.replace("OUT", str(folder / "out")) for word in words]


CASES |= {each: _use("audit", *_FINE, each) for each in OPTIONS.split()}
CASES |= {each: _use(*each.split()) for line in COMMANDS.split("\n") for each in line.split("|")}

#: The command line, which notes in the end what it cost: time of the processor, most memory.
#: VmHWM, as ru_maxrss of a new program is at least that of the program that started it.
_WATCHED = """
import pathlib, re, resource
from attribound.cli import main
here = pathlib.Path.cwd()
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = re.search(r"VmHWM:\\s*(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]
    (here / "costs").write_text(f"{used.ru_utime + used.ru_stime} {int(most) / 1024}")
"""


def tried() -> Iterator[tuple[str, int, float, float, str, bool]]:
    """Every case in its own process: exit code, CPU seconds, megabytes, words, code run."""
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            words = case(Path(folder))
            command = [sys.executable, "-c", _WATCHED, *words]
            ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
            seconds, used = map(float, (Path(folder) / "costs").read_text().split())
            ran = (Path(folder) / MARK).exists()
            said = ended.stderr.strip().replace(f"{folder}/", "").removeprefix("attribound: ")
            yield name, ended.returncode, seconds, used, said, ran


def main() -> None:
    """Print the table and fail if a case did not end as it must."""
    faults = 0
    print(f"Refused in one line, at most {SECONDS:g} CPU s and {MEGABYTES:g} MB each:")
    print(f"{'given':46} {'exit':>4} {'s':>6} {'MB':>5}  said")
    for name, code, seconds, used, said, ran in tried():
        fine = code == 2 and "\n" not in said and not ran
        fine = fine and seconds <= SECONDS and used <= MEGABYTES
        faults += not fine
        shown = f"{'' if fine else 'FAULT '}{said[:90]}"
        print(f"{name:46} {code:4} {seconds:6.1f} {used:5.0f}  {shown}".rstrip(), flush=True)
    print(f"{len(CASES)} tried, {faults} not as they must be")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
