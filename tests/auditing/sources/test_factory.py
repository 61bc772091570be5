from __future__ import annotations

import sys

import pytest
import torch
from safetensors.torch import save_file

import attribound as ab
from attribound.auditing.sources import load_model
from attribound.auditing.sources.factory import is_factory
from attribound.networks.fingerprint import fingerprint
from auditing.sources import nets

HERE = "auditing.sources.nets"


@pytest.mark.parametrize(
    ("spec", "is_one"),
    [
        ("nets:build", True),
        ("pkg.nets:Builders.small", True),
        ('nets:build?{"width": 4}', True),
        ("nets:build?", True),
        ("nets", False),
        ("nets.py:build", True),
        ("C:\\net.pt", False),
        ("nets:build()", False),
        ("my-nets:build", False),
        (":build", False),
        ("nets:", False),
    ],
)
def test_the_form(spec, is_one) -> None:
    assert is_factory(spec) is is_one


def test_makes_the_network_in_eval_mode() -> None:
    loaded = load_model(f"{HERE}:build")
    assert not loaded.model.training
    assert loaded.name == f"{HERE}:build"
    assert loaded.details == {
        "kind": "factory",
        "factory": f"{HERE}:build",
        "settings": {},
        "notes": ["no weights were given: they are the factory's own"],
    }


def test_settings_are_json() -> None:
    loaded = load_model(HERE + ':build?{"width": 5}')
    assert loaded.model[0].out_features == 5
    assert loaded.details["settings"] == {"width": 5}
    assert load_model(f"{HERE}:Builders.small").model[0].out_features == 3


def test_every_process_makes_the_same_network_and_the_generator_is_left_alone() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = fingerprint("model", load_model(f"{HERE}:build").model)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert fingerprint("model", load_model(f"{HERE}:build").model) == first
    assert fingerprint("model", nets.build()) != first


def test_weights_go_into_it(tmp_path) -> None:
    state = {k: v + 1 for k, v in nets.build().state_dict().items()}
    save_file(state, tmp_path / "net.safetensors")
    loaded = load_model(f"{HERE}:build", str(tmp_path / "net.safetensors"))
    assert all(torch.equal(v, state[k]) for k, v in loaded.model.state_dict().items())
    assert loaded.details["file"] == "net.safetensors"
    assert len(loaded.details["sha256"]) == 64
    assert loaded.details["notes"] == []
    save_file({k: v.half() for k, v in state.items()}, tmp_path / "half.safetensors")
    loaded = load_model(f"{HERE}:build", str(tmp_path / "half.safetensors"))
    assert loaded.details["notes"] == ["weights in float16 were converted to float32"]
    assert next(loaded.model.parameters()).dtype == torch.float32


def test_the_current_directory_is_searched_as_python_m_does(tmp_path, monkeypatch) -> None:
    (tmp_path / "nets_in_cwd.py").write_text(
        "def make():\n    import nets_beside\n    return nets_beside.network()\n"
    )
    (tmp_path / "nets_beside.py").write_text(
        "import torch\n\ndef network():\n    return torch.nn.Linear(2, 2)\n"
    )
    before = [place for place in sys.path if place]
    monkeypatch.setattr(sys, "path", list(before))
    with pytest.raises(ab.InputError, match="No module named 'nets_in_cwd'"):
        load_model("nets_in_cwd:make")
    monkeypatch.chdir(tmp_path)
    try:
        assert load_model("nets_in_cwd:make").model.in_features == 2
    finally:
        for name in ("nets_in_cwd", "nets_beside"):
            sys.modules.pop(name, None)
    assert sys.path == before


@pytest.mark.parametrize(
    ("spec", "kind", "match"),
    [
        ("no.such.module:build", ab.InputError, "no.such.module: .* ModuleNotFoundError"),
        (f"{HERE}:biuld", ab.InputError, "has no attribute 'biuld'; check the spelling"),
        (f"{HERE}:NUMBER", ab.InputError, "that makes the network, got a int"),
        (f"{HERE}:INSTANCE", ab.InputError, "that makes the network, got a Sequential"),
        (f"{HERE}:no_network", ab.ModelError, r"returns a torch.nn.Module, got list"),
        (f"{HERE}:broken", ab.ModelError, "RuntimeError: no such width"),
        (HERE + ':build?{"depth": 1}', ab.ModelError, "TypeError: .*'depth'"),
        (f"{HERE}:build?[1]", ab.InputError, "a JSON object after '\\?', got '\\[1\\]';"),
        (f"{HERE}:build?width=3", ab.InputError, "got 'width=3' \\(Expecting value"),
    ],
)
def test_refusals(spec, kind, match) -> None:
    with pytest.raises(kind, match=match):
        load_model(spec)
