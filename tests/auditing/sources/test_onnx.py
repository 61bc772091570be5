from __future__ import annotations

import sys
import warnings
from pathlib import Path

import onnx
import onnx2fx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import attribound as ab
from attribound.auditing.sources import load_model
from attribound.networks.fingerprint import fingerprint
from attribound.networks.kinks import find_kinks
from auditing.sources import nets


def exported(model: nn.Module, path: Path) -> Path:
    """``model`` written by PyTorch's own exporter."""
    batch = ({0: torch.export.Dim("batch")},)
    with warnings.catch_warnings():  # of torch and its exporter
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (nets.images(),), path, dynamo=True, dynamic_shapes=batch, verbose=False
        )
    return path


@pytest.fixture(scope="module")
def smooth_file(tmp_path_factory):
    return exported(nets.smooth_cnn(), tmp_path_factory.mktemp("smooth") / "net.onnx")


def test_gives_the_network_for_every_batch_size(smooth_file) -> None:
    found, original = load_model(str(smooth_file)), nets.smooth_cnn()
    for batch in (1, 2, 7):
        x = nets.images(batch)
        torch.testing.assert_close(found.model(x), original(x), rtol=1e-4, atol=1e-6)
    assert found.details["kind"] == "onnx"
    assert found.details["shape"] == [2, 6, 6]
    first, second = (fingerprint("m", load_model(str(smooth_file)).model) for _ in range(2))
    assert first == second


def test_bounds_and_attributions_are_those_of_the_original(smooth_file) -> None:
    """To the float32 in which the exporter folds the batch norm into the convolution."""
    found, original = load_model(str(smooth_file)).model.double(), nets.smooth_cnn().double()
    x, ball = nets.images().double(), ab.L2Ball(0.1)
    for method in (ab.Saliency, lambda m: ab.IntegratedGradients(m, steps=3)):
        torch.testing.assert_close(method(found)(x), method(original)(x), rtol=1e-4, atol=1e-6)
        ours, theirs = (ab.bound(method(m), x, ball).euclidean for m in (found, original))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_kinks_are_found_and_smoothed_as_in_the_original(tmp_path) -> None:
    original, x = nets.kinked_cnn()[:6], nets.images()
    original = nn.Sequential(*original, nn.Flatten())
    found = load_model(str(exported(original, tmp_path / "net.onnx"))).model
    assert {"relu", "max_pool2d_with_indices", "leaky_relu", "clamp"} == {
        kink.operator for kink in find_kinks(found, x)
    }
    smooth = ab.smooth(found, 20.0)
    assert find_kinks(smooth, x) == ()
    torch.testing.assert_close(smooth(x), ab.smooth(original, 20.0)(x), rtol=1e-4, atol=1e-6)


def graph(
    nodes: list[onnx.NodeProto],
    constants: dict[str, torch.Tensor],
    batch: int | str = "batch",
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:
    """A model of rows of two features, straight from operators."""
    value = helper.make_tensor_value_info
    return helper.make_model(
        helper.make_graph(
            nodes,
            "graph",
            [value("x", TensorProto.FLOAT, [batch, 2])],
            [value(name, TensorProto.FLOAT, ["n", "m"]) for name in outputs],
            [numpy_helper.from_array(v.numpy(), k) for k, v in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("custom", 1)],
        ir_version=9,
    )


def softplus(limit: float, beta: str = "b") -> onnx.ModelProto:
    """What PyTorch writes for Softplus(5, limit)."""
    node = helper.make_node
    nodes = [
        node("Mul", ["x", "b"], ["m"]),
        node("Softplus", ["m"], ["s"]),
        node("Div", ["s", beta], ["d"]),
        node("Greater", ["m", "t"], ["c"]),
        node("Where", ["c", "x", "d"], ["y"]),
    ]
    return graph(nodes, {"b": torch.tensor(5.0), "t": torch.tensor(limit), "o": torch.tensor(4.0)})


def test_softplus_is_one_function_again(tmp_path) -> None:
    onnx.save(softplus(20.0), tmp_path / "net.onnx")
    model = load_model(str(tmp_path / "net.onnx")).model
    x = torch.linspace(-8, 8, 400).reshape(-1, 2)
    torch.testing.assert_close(model(x), nn.functional.softplus(x, 5.0))
    assert find_kinks(model, x) == ()


@pytest.mark.parametrize(("limit", "beta"), [(2.0, "b"), (20.0, "o")])
def test_another_function_of_the_same_form_keeps_its_kink(limit, beta, tmp_path) -> None:
    """A low threshold jumps visibly; another divisor is no softplus at all."""
    onnx.save(softplus(limit, beta), tmp_path / "net.onnx")
    model, x = load_model(str(tmp_path / "net.onnx")).model, torch.rand(3, 2)
    assert [kink.operator for kink in find_kinks(model, x)] == ["gt"]


def test_names_are_not_written_into_code(tmp_path) -> None:
    marker = tmp_path / "marker"
    name = f"y = __import__('os').mkdir('{marker}') #"
    nodes = [
        helper.make_node("Softplus", ["x"], [name], name=name),
        helper.make_node("Mul", [name, name + "w"], ["y"]),
    ]
    onnx.save(graph(nodes, {name + "w": torch.tensor(2.0)}), tmp_path / "net.onnx")
    found = load_model(str(tmp_path / "net.onnx")).model
    x = torch.rand(3, 2)
    torch.testing.assert_close(found(x), 2 * nn.functional.softplus(x))
    assert "mkdir" not in found.program
    assert not marker.exists()


SIGMOID = helper.make_node("Sigmoid", ["x"], ["y"])


@pytest.mark.parametrize(
    ("model", "kind", "match"),
    [
        (graph([SIGMOID], {}, batch=4), ab.ModelError, r"any number of inputs, got .* \(4, 2\)"),
        (graph([SIGMOID], {}, outputs=("y", "x")), ab.ModelError, "1 inputs and 2 outputs"),
        (
            graph([helper.make_node("Magic", ["x"], ["y"], domain="custom")], {}),
            ab.InputError,
            "got custom::Magic; export the network without custom operators",
        ),
        (
            graph([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], {}),
            ab.ModelError,
            r"logits \(batch, classes\) for every batch",
        ),
        (
            graph([helper.make_node("Softmax", ["x"], ["y"], axis=0)], {}),
            ab.ModelError,
            "examples that do not see each other",
        ),
        (
            graph([helper.make_node("Reshape", ["x", "s"], ["y"])], {"s": torch.tensor([3, 2])}),
            ab.ModelError,
            "a network that takes 1 and 3 inputs",
        ),
    ],
)
def test_refusals(model, kind, match, tmp_path) -> None:
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(kind, match=match):
        load_model(str(tmp_path / "net.onnx"))


def test_control_flow_is_refused(tmp_path) -> None:
    value = helper.make_tensor_value_info
    inner = helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["z"])], "inner", [], [value("z", 1, ["n", "m"])]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    onnx.save(graph([node], {"c": torch.tensor(True)}), tmp_path / "net.onnx")
    with pytest.raises(ab.InputError, match=r"without graphs inside, got ai.onnx::If"):
        load_model(str(tmp_path / "net.onnx"))


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x09" * 40])
def test_damaged_files(content, tmp_path) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ab.InputError, match=r"net.onnx: expected a whole ONNX file"):
        load_model(str(tmp_path / "net.onnx"))


def test_weights_outside_of_the_folder_are_not_read(tmp_path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 8)
    (tmp_path / "here").mkdir()
    model = graph([helper.make_node("Mul", ["x", "w"], ["y"])], {"w": torch.ones(2)})
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret")
    (tmp_path / "here" / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ab.InputError, match=r"net.onnx: expected a whole ONNX file"):
        load_model(str(tmp_path / "here" / "net.onnx"))


def test_what_the_converter_cannot_do_is_told(smooth_file, monkeypatch) -> None:
    def convert(_: onnx.ModelProto) -> None:
        raise onnx2fx.UnsupportedOpError("Magic")

    monkeypatch.setattr(onnx2fx, "convert", convert)
    with pytest.raises(ab.InputError, match=r"operators that onnx2fx converts, .*Magic.*\.pt2"):
        load_model(str(smooth_file))


def test_says_which_extra_is_missing(smooth_file, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx2fx", None)
    with pytest.raises(ab.InputError, match=r"package onnx2fx.*pip install 'attribound\[onnx\]'"):
        load_model(str(smooth_file))
