"""Ways to make ``torch.export.load`` run code, tried and refused."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.auditing.sources import load_model
from attribound.auditing.sources.program import _is_arithmetic, _is_operator, safe_archive
from auditing.sources import hostile, nets


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> Path:
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.Softplus(), nn.Linear(4, 2)).eval()
    return nets.exported(model, tmp_path_factory.mktemp("clean") / "net.pt2")


def pickled_tensor(marker: Path) -> bytes:
    stream = io.BytesIO()
    torch.save(hostile.Bomb(marker), stream)
    return stream.getvalue()


def command(marker: Path) -> str:
    return f"__import__('os').mkdir('{marker}')"


def edited(edit: Callable[[Any], None], which: str = "models/model.json") -> Callable[..., Any]:
    def change(name: str, content: bytes) -> bytes:
        if name != which:
            return content
        data = json.loads(content)
        edit(data)
        return json.dumps(data).encode()

    return change


def pickled_weight(marker: Path) -> Callable[..., Any]:
    """A weight stored as a pickle."""
    mark = edited(
        lambda c: c["config"]["1.weight"].update(use_pickle=True),
        "data/weights/model_weights_config.json",
    )

    def change(name: str, content: bytes) -> bytes:
        return pickled_tensor(marker) if name == "data/weights/weight_0" else mark(name, content)

    return change


def pickled_constant(marker: Path) -> Callable[..., Any]:
    """A constant stored as a pickled object, in the place of a weight's member."""
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    return edited(
        lambda c: c["config"].update(bomb={**entry, "tensor_meta": None}),
        "data/constants/model_constants_config.json",
    )


def pickled_example(marker: Path) -> Callable[..., Any]:
    """Examples of inputs are unpickled, restricted first and then without restriction."""

    def change(name: str, content: bytes) -> bytes:
        return pickled_tensor(marker) if name.startswith("data/sample_inputs") else content

    return change


def evaluated_size(marker: Path) -> Callable[..., Any]:
    """Sizes are evaluated as Python by sympy."""

    def edit(program: Any) -> None:
        sizes = program["graph_module"]["graph"]["tensor_values"]["input"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = command(marker)

    return edited(edit)


def foreign_function(marker: Path) -> Callable[..., Any]:
    """Nodes may name any function below torch, such as torch.os.mkdir."""

    def edit(program: Any) -> None:
        nodes = program["graph_module"]["graph"]["nodes"]
        text = {"name": "a", "arg": {"as_string": str(marker)}, "kind": 1}
        nodes[0] |= {"target": "torch.os.mkdir", "inputs": [text]}

    return edited(edit)


def injected_name(marker: Path) -> Callable[..., Any]:
    """Names of values are written into the generated code."""
    name = f"linear = {command(marker)} #"

    def change(member: str, content: bytes) -> bytes:
        if member != "models/model.json":
            return content
        program = json.loads(content)
        graph = json.dumps(program["graph_module"]["graph"])
        renamed = graph.replace('"linear"', json.dumps(name))
        program["graph_module"]["graph"] = json.loads(renamed)
        return json.dumps(program).encode()

    return change


#: These work on torch 2.13; the others are stopped by its own checks, too.
WORKING = [pickled_weight, pickled_constant, pickled_example, evaluated_size]
ATTACKS = [*WORKING, foreign_function, injected_name]


def attacked(attack, clean: Path, tmp_path: Path) -> tuple[Path, Path]:
    marker = tmp_path / "marker"
    extra = {"data/constants/opaque_obj_0": hostile.pickled(marker)}
    extra = extra if attack is pickled_constant else {}
    return hostile.rewritten(clean, tmp_path / "net.pt2", attack(marker), **extra), marker


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_programs_do_nothing(attack, clean, tmp_path) -> None:
    path, marker = attacked(attack, clean, tmp_path)
    if attack is pickled_example:  # dropped, for it is not needed
        assert load_model(str(path)).model(nets.images()).shape == (3, 2)
    else:
        with pytest.raises(ab.InputError, match=r"net.pt2: expected .* of tensors and the usual"):
            load_model(str(path))
    assert not marker.exists()


@pytest.mark.parametrize("attack", WORKING)
def test_the_attacks_work_on_torch_itself(attack, clean, tmp_path) -> None:
    """Else the test above would show nothing."""
    path, marker = attacked(attack, clean, tmp_path)
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # of wrong types, afterwards
        warnings.simplefilter("ignore")
        torch.export.load(path)
    assert marker.exists()


def test_compiled_code_is_refused(clean, tmp_path) -> None:
    path = hostile.rewritten(
        clean, tmp_path / "net.pt2", lambda _, c: c, **{"data/aotinductor/model/net.so": b"\x7fELF"}
    )
    with pytest.raises(ab.InputError, match=r"the member 'data/aotinductor/model/net.so'"):
        load_model(str(path))


def test_extra_files_are_dropped(clean, tmp_path) -> None:
    path = hostile.rewritten(
        clean, tmp_path / "net.pt2", lambda _, c: c, **{"extra/notes.txt": b"<script>"}
    )
    assert load_model(str(path)).model(nets.images()).shape == (3, 2)
    with zipfile.ZipFile(safe_archive(path)) as archive:
        assert not [name for name in archive.namelist() if "extra" in name]


def test_two_members_of_one_name_are_refused(clean, tmp_path) -> None:
    """Readers of archives disagree on which of them counts."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = hostile.rewritten(
            clean, tmp_path / "net.pt2", lambda _, c: c, **{"models/model.json": b"{}"}
        )
    with pytest.raises(ab.InputError, match="two members of one name"):
        load_model(str(path))


def test_compressed_members_are_refused(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", "0" * 10_000)
    with pytest.raises(ab.InputError, match="compressed members"):
        load_model(str(tmp_path / "net.pt2"))


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda p: p.pop("graph_module"), r"another form \(KeyError: 'graph_module'"),
        (lambda p: p["graph_module"].update(graph=[]), "another form"),
        (
            lambda p: p["graph_module"]["graph"]["nodes"][0]["inputs"][0].update(
                arg={"as_operator": "torch.ops.aten.relu.default"}
            ),
            "an argument as_operator",
        ),
        (
            lambda p: p["graph_module"]["signature"]["input_specs"].append({"custom_obj": {}}),
            "inputs of the kinds .*custom_obj",
        ),
        (
            lambda p: p["graph_module"]["signature"]["input_specs"][0]["parameter"].update(
                parameter_name="__class__"
            ),
            "parameter_name '__class__'",
        ),
        (lambda p: p.update(verifiers=["a b"]), "verifiers 'a b'"),
        (lambda p: p.update({"a b": 1}), "the name 'a b'"),
    ],
)
def test_what_is_not_on_the_list_is_refused(edit, match, clean, tmp_path) -> None:
    path = hostile.rewritten(clean, tmp_path / "net.pt2", edited(edit))
    with pytest.raises(ab.InputError, match=match):
        load_model(str(path))


@pytest.mark.parametrize(
    ("member", "match"),
    [
        ("models/model.json", "no member models/model.json"),
        ("data/weights/weight_0", "no member data/weights/weight_0"),
        ("data/constants/model_constants_config.json", "no member data/constants"),
    ],
)
def test_missing_members(member, match, clean, tmp_path) -> None:
    path = hostile.rewritten(clean, tmp_path / "net.pt2", lambda n, c: None if n == member else c)
    with pytest.raises(ab.InputError, match=match):
        load_model(str(path))


def test_a_program_that_is_no_json(clean, tmp_path) -> None:
    path = hostile.rewritten(
        clean, tmp_path / "net.pt2", lambda n, c: b"{" if n == "models/model.json" else c
    )
    with pytest.raises(ab.InputError, match=r"models/model.json that is no JSON"):
        load_model(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s0', positive=True, integer=True)",
        "Mul(Integer(16), Symbol('s77', positive=True, integer=True))",
        "16*s0 + Max(1, u3) - 2",
        "FloorDiv(s0, 2)",
    ],
)
def test_arithmetic(text) -> None:
    assert _is_arithmetic(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "Symbol('s0').__class__",
        "Symbol(__import__('os'))",
        "Symbol('s0', positive=exit())",
        "Symbol('s0', 's1')",
        "Symbol('exit()')",
        "Symbol()",
        "Integer('exit()')",
        "exit()",
        "exit",
        "Max(*s0)",
        "Max(s0, key=s1)",
        "[s0 for s0 in s1]",
        "lambda: 1",
        "s0 if s1 else s2",
        "9**9",
        "1.5",
        "'a'",
        "(s0",
        "",
        "(" * 500 + ")" * 500,
    ],
)
def test_no_arithmetic(text) -> None:
    assert not _is_arithmetic(text)


@pytest.mark.parametrize(
    ("target", "known"),
    [
        ("torch.ops.aten.relu.default", True),
        ("torch.ops.aten.add.Tensor", True),
        ("torch.ops.aten.sym_size.int", True),
        ("_operator.getitem", True),
        ("torch.sym_max", True),
        ("torch.ops.aten.relu", False),
        ("torch.ops.aten.relu.nothing", False),
        ("torch.ops.aten.relu.overloads", False),
        ("torch.ops.aten.__class__.__init__", False),
        ("torch.ops.aten.from_file.default", False),
        ("torch.ops.load_library", False),
        ("torch.ops.other.relu.default", False),
        ("torch.os.system", False),
        ("torch.load", False),
        ("_operator.methodcaller", False),
        ("math.ceil.__self__", False),
        ("#ext:anything", False),
        ("", False),
    ],
)
def test_operators(target, known) -> None:
    assert _is_operator(target) is known
