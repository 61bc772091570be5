from __future__ import annotations

import copy
import pickle
import warnings
import zipfile

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.auditing.sources import load_model
from attribound.networks.fingerprint import fingerprint
from attribound.networks.kinks import find_kinks
from auditing.sources import hostile, nets


@pytest.fixture(scope="module")
def smooth_file(tmp_path_factory):
    return nets.exported(nets.smooth_cnn(), tmp_path_factory.mktemp("smooth") / "net.pt2")


@pytest.fixture(scope="module")
def kinked_file(tmp_path_factory):
    return nets.exported(nets.kinked_cnn(), tmp_path_factory.mktemp("kinked") / "net.pt2")


def test_decomposed_programs_are_read_too(tmp_path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.load(nets.exported(nets.smooth_cnn(), tmp_path / "a.pt2"))
        torch.export.save(program.run_decompositions(), tmp_path / "b.pt2")
    found = load_model(str(tmp_path / "b.pt2")).model
    torch.testing.assert_close(found(nets.images()), nets.smooth_cnn()(nets.images()))


def test_gives_the_network_for_every_batch_size(smooth_file) -> None:
    found = load_model(str(smooth_file))
    original = nets.smooth_cnn()
    for batch in (1, 2, 7):
        assert torch.equal(found.model(nets.images(batch)), original(nets.images(batch)))
    assert not found.model.training
    assert found.name == "net"
    assert found.details["kind"] == "pt2"
    assert found.details["shape"] == [2, 6, 6]


def test_bounds_and_attributions_are_those_of_the_original(smooth_file) -> None:
    found, original = load_model(str(smooth_file)).model.double(), nets.smooth_cnn().double()
    x, ball = nets.images().double(), ab.L2Ball(0.1)
    for method in (ab.Saliency, lambda m: ab.IntegratedGradients(m, steps=3)):
        torch.testing.assert_close(method(found)(x), method(original)(x))
        ours, theirs = (ab.bound(method(m), x, ball).euclidean for m in (found, original))
        torch.testing.assert_close(ours, theirs)


def test_kinks_are_found_and_smoothed_as_in_the_original(kinked_file) -> None:
    found, original, x = load_model(str(kinked_file)).model, nets.kinked_cnn(), nets.images()
    operators = {kink.operator for kink in find_kinks(found, x)}
    assert operators == {kink.operator for kink in find_kinks(original, x)}
    assert {"relu", "max_pool2d_with_indices", "leaky_relu", "hardtanh"} <= operators
    smooth = ab.smooth(found, 20.0)
    assert find_kinks(smooth, x) == ()
    torch.testing.assert_close(smooth(x), ab.smooth(original, 20.0)(x))
    assert not torch.allclose(smooth(x), found(x))


def test_the_fingerprint_knows_weights_and_graph(smooth_file, tmp_path) -> None:
    first, second = (load_model(str(smooth_file)).model for _ in range(2))
    assert fingerprint("m", first) == fingerprint("m", second)
    other = nets.smooth_cnn()
    other[5] = nn.Tanh()
    changed = load_model(str(nets.exported(other, tmp_path / "net.pt2"))).model
    assert first.state_dict().keys() == changed.state_dict().keys()
    assert fingerprint("m", first) != fingerprint("m", changed)


def test_can_be_copied_and_pickled(smooth_file) -> None:
    model, x = load_model(str(smooth_file)).model, nets.images()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again(x), model(x))
        assert fingerprint("m", again) == fingerprint("m", model)


class Constants(nn.Module):
    """A constant tensor, an equation in a text, sizes computed from the batch."""

    def forward(self, x):
        weight = torch.arange(72.0).reshape(72, 1) / 72 * torch.ones(2)
        return torch.einsum("bi,ik->bk", x.reshape(x.shape[0], -1).square(), weight)


def test_constants_texts_and_computed_sizes(tmp_path) -> None:
    x = nets.images(5)
    found = load_model(str(nets.exported(Constants(), tmp_path / "net.pt2")))
    torch.testing.assert_close(found.model(x), Constants()(x))


def test_free_sizes_are_told(tmp_path) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    dims = ({0: torch.export.Dim("batch"), 2: torch.export.Dim("height", min=4)},)
    program = torch.export.export(model.eval(), (nets.images(),), dynamic_shapes=dims)
    torch.export.save(program, tmp_path / "net.pt2")
    found = load_model(str(tmp_path / "net.pt2"))
    assert found.details["shape"] == [2, None, 6]
    assert found.model(torch.rand(4, 2, 9, 6)).shape == (4, 3)


def test_half_precision(tmp_path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 3)).half()
    path = nets.exported(model, tmp_path / "net.pt2", nets.images().half())
    found = load_model(str(path))
    assert found.details["notes"] == ["weights in float16 were converted to float32"]
    assert found.model(nets.images()).dtype == torch.float32


def test_a_fixed_batch_is_refused_with_the_line_that_frees_it(tmp_path) -> None:
    program = torch.export.export(nets.smooth_cnn(), (nets.images(),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(ab.ModelError, match=r"any number of inputs, got .* \(3, 2, 6, 6\)") as no:
        load_model(str(tmp_path / "net.pt2"))
    assert "dynamic_shapes=({0: torch.export.Dim('batch')},)" in str(no.value)


def test_training_mode_is_refused(tmp_path) -> None:
    norm = nets.exported(nets.smooth_cnn().train(), tmp_path / "norm.pt2")
    with pytest.raises(ab.ModelError, match=r"norm.pt2: .*the same output.*model.eval\(\)"):
        load_model(str(norm))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.load(norm).run_decompositions({}), tmp_path / "core.pt2")
    with pytest.raises(ab.InputError, match=r"changes its own buffers; call model.eval\(\)"):
        load_model(str(tmp_path / "core.pt2"))
    dropout = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(72, 3)).train()
    with pytest.raises(ab.ModelError, match=r"drop.pt2: .*the same output"):
        load_model(str(nets.exported(dropout, tmp_path / "drop.pt2")))


class Several(nn.Module):
    def forward(self, x):
        return x.flatten(1), x


def test_other_outputs_than_logits_are_refused(tmp_path) -> None:
    with pytest.raises(ab.InputError, match="other inputs and outputs than one tensor each"):
        load_model(str(nets.exported(Several(), tmp_path / "a.pt2")))
    with pytest.raises(ab.ModelError, match=r"b.pt2: expected logits \(batch, classes\)"):
        load_model(str(nets.exported(nn.Conv2d(2, 1, 3), tmp_path / "b.pt2")))


@pytest.mark.parametrize("how", ["empty", "text", "truncated", "zip"])
def test_damaged_files(how, smooth_file, tmp_path) -> None:
    path = tmp_path / "net.pt2"
    whole = smooth_file.read_bytes()
    path.write_bytes({"empty": b"", "text": b"no", "truncated": whole[:-99], "zip": b""}[how])
    if how == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("net/a.txt", "a")
    with pytest.raises(ab.InputError, match=r"net.pt2: expected a"):
        load_model(str(path))


def test_inconsistent_files_are_refused(smooth_file, tmp_path) -> None:
    """Harmless to load, and still not what they say."""

    def change(name: str, content: bytes) -> bytes:
        return (
            content.replace(b'"p_0_bias"', b'"p_nowhere"', 1) if "model.json" in name else content
        )

    path = hostile.rewritten(smooth_file, tmp_path / "net.pt2", change)
    with pytest.raises(ab.InputError, match=r"a program that torch .* can load"):
        load_model(str(path))
