from __future__ import annotations

import io
import math
import tracemalloc
from dataclasses import replace

import captum.attr
import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import attribound as ab
from attribound.attributions.noise import generator_of, noisy, normalised, top_count
from attribound.basics.tensors import angle_degrees
from attribound.bounding.smoothed import drawing
from attribound.bounding.smoothed import method as smoothed_method
from attribound.bounding.smoothed.drawing import FIRST
from attribound.results import AVERAGED

METHOD = ab.Smoothed(draws=400)


def table() -> tuple[nn.Module, Tensor]:
    """A ReLU network of six features."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    return network, torch.rand(2, 6)


def images() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 3)
    ).eval()
    return network, torch.rand(2, 1, 6, 6)


def question(ball: ab.Ball, method: ab.Method = METHOD) -> ab.Question:
    network, x = table()
    saliency = ab.Saliency(network)
    return ab.Question(saliency, x, ball, saliency.targets(x))


class TestTheBound:
    def test_of_a_network_with_kinks(self) -> None:
        network, x = table()
        bound = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), method=METHOD)
        assert bound.claim.name == "smoothed"
        assert bound.subject == AVERAGED == "the averaged map of your network"
        assert (bound.degrees > 0).all()
        assert (bound.degrees < 90).all()
        assert (bound.shown_degrees > bound.degrees).all()
        assert bound.map.shape == x.shape
        assert ((bound.label_share > 0) & (bound.label_share <= 1)).all()
        similar = torch.cosine_similarity(bound.map, ab.Saliency(network)(x))
        torch.testing.assert_close(bound.similarity, similar)
        sine = bound.euclidean / bound.attribution_norm
        torch.testing.assert_close(torch.sin(torch.deg2rad(bound.degrees)), sine)
        assert (bound.products == 400).all()

    def test_by_the_name_of_the_claim(self) -> None:
        network, x = table()
        made = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), claim="smoothed:draws=400")
        plain = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), method=METHOD)
        assert torch.equal(made.degrees, plain.degrees)
        text = repr(made)
        for part in (AVERAGED, "certified (smoothed)", "400 draws", "alpha 0.001", "variance form"):
            assert part in text

    def test_the_map_is_the_mean_of_the_draws(self) -> None:
        """Against a plain loop over the same noise."""
        network, x = table()
        bound = ab.bound(ab.Saliency(network), x[:1], ab.L2Ball(0.05), method=METHOD)
        (row, ((example, _),)), *_ = METHOD.examples([question(ab.L2Ball(0.05))])
        assert row == slice(0, 1)
        np.testing.assert_allclose(bound.map[0].numpy(), example.average.shown, rtol=1e-5)
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(20_000, 6, generator=generator)
        points = x[:1] + 0.25 * noise
        maps = ab.Saliency(network)(points, int(bound.target))
        mean = normalised(maps, "unit").mean(0, keepdim=True)
        assert angle_degrees(mean.float(), bound.map).item() < bound.shown_degrees.item()
        assert angle_degrees(mean.float(), bound.map).item() < 6

    def test_it_is_never_below_an_attack_on_the_average(self) -> None:
        """Corners and random directions, each judged by a large sample of its own."""
        network, x = table()
        saliency = ab.Saliency(network)
        ball = ab.L2Ball(0.1)
        bound = ab.bound(saliency, x[:1], ball, method=ab.Smoothed(draws=20_000))
        generator = torch.Generator().manual_seed(1)
        noise = 0.25 * torch.randn(20_000, 6, generator=generator, dtype=torch.float64)

        def average(at: Tensor) -> Tensor:
            points = (at.double() + noise).float()
            return normalised(saliency.revalue(points, bound.target.expand(20_000)), "unit").mean(0)

        here = average(x[:1])[None]
        turned = []
        for seed in range(20):
            there = average(x[:1] + ball.sample_sphere(x[:1], seed))[None]
            turned.append(angle_degrees(here, there).item())
        assert max(turned) < bound.degrees.item() < 4 * max(turned)

    @pytest.mark.parametrize("structured", [True, False])
    @pytest.mark.parametrize("kind", [ab.Saliency, ab.InputXGradient])
    def test_the_share_of_labels_is_that_of_the_network(
        self, kind: type[ab.Saliency], structured: bool
    ) -> None:
        """From the pass that makes the maps, or from one of its own: as the network says."""
        network, x = table()
        classifier = ab.Classifier(network, structured=structured)
        explained = kind(classifier)
        bound = ab.bound(explained, x, ab.L2Ball(0.1), method=ab.Smoothed(2.0, draws=500))
        assert ((bound.label_share > 0.1) & (bound.label_share < 0.95)).all()
        for row in range(2):
            noise = 2.0 * generator_of(x[row], 0, FIRST).standard_normal((100, 6))
            points = noisy(x[row], noise)
            with torch.no_grad():
                same = network(points).argmax(1) == bound.target[row]
            assert bound.label_share[row].item() == pytest.approx(same.double().mean().item())
            maps, predicted = explained.revalue_and_predict(points, bound.target[row].expand(100))
            assert torch.equal(predicted == bound.target[row], same)
            alone = explained.revalue(points, bound.target[row].expand(100))
            assert torch.equal(maps, alone)

    def test_an_average_that_is_another_explanation_says_so(self) -> None:
        x = torch.full((2, 6), 0.5)

        def spike(x: Tensor, target: Tensor) -> Tensor:
            near = (x - 0.5).abs().amax(1, keepdim=True) < 0.01
            return torch.where(near, torch.eye(6)[:1], torch.eye(6)[1:2])

        explained = ab.FunctionAttribution(spike)
        near = ab.bound(explained, x, ab.L2Ball(1e-3), 0, replace(METHOD, sigma=1e-3))
        far = ab.bound(explained, x, ab.L2Ball(0.1), 0, METHOD)
        flag = ab.Status.ANOTHER_EXPLANATION
        assert all(flag not in each for each in near.status)
        assert all(flag in each for each in far.status)
        assert (far.similarity < 0.1).all()
        assert "another-explanation" in repr(far)
        assert "another explanation than the attribution" in flag.explanation

    def test_reservations(self) -> None:
        network, x = table()
        wrong = (ab.Saliency(network).targets(x) + 1) % 3
        bound = ab.bound(ab.Saliency(network), x, ab.L2Ball(5.0), wrong, METHOD)
        assert all(ab.Status.MISCLASSIFIED in each for each in bound.status)
        assert all(ab.Status.ANGLE_UNBOUNDED in each for each in bound.status)
        assert (bound.degrees == 180).all()
        assert (bound.shown_degrees == 180).all()
        zero = ab.FunctionAttribution(lambda x, t: torch.zeros_like(x))
        bound = ab.bound(zero, x, ab.L2Ball(0.1), 0, METHOD)
        assert all(ab.Status.ZERO_ATTRIBUTION in each for each in bound.status)
        assert bound.label_share is None
        assert "?" in repr(bound)

    @pytest.mark.parametrize("kind", ["sign", "top"])
    def test_other_normalisers(self, kind: str) -> None:
        network, x = table()
        method = replace(METHOD, normaliser=kind, k=2 if kind == "top" else None)
        bound = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.02), method=method)
        assert (bound.degrees < 90).all()
        assert (bound.map.norm(dim=1) <= 1).all()


class TestTheDraws:
    def test_they_are_those_of_the_example_and_the_seed(self) -> None:
        network, x = table()
        both = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), method=METHOD)
        alone = ab.bound(ab.Saliency(network), x[1:], ab.L2Ball(0.05), method=METHOD)
        assert torch.equal(both.degrees[1:], alone.degrees)
        other = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), method=replace(METHOD, seed=1))
        assert (both.degrees != other.degrees).all()

    def test_one_sample_serves_all_radii(self) -> None:
        network, x = table()
        evaluated = []

        def counting(x: Tensor, target: Tensor) -> Tensor:
            evaluated.append(len(x))
            return ab.Saliency(network)(x, target)

        explained = ab.FunctionAttribution(counting)
        target = torch.zeros(2, dtype=torch.long)
        balls = [ab.L2Ball(r) for r in (0.02, 0.05, 0.2)] + [ab.LinfBall(0.01)]
        questions = [ab.Question(explained, x, ball, target) for ball in balls]
        METHOD.prepare(questions)
        together = sum(evaluated)
        assert together < 2 * 400 * 1.2
        for each in questions:
            single = ab.bound(explained, x, each.ball, target, METHOD)
            assert torch.equal(each.bound(METHOD).degrees, single.degrees)
            assert each.seconds[METHOD] > 0

    def test_the_last_chunk_is_as_large_as_the_others(self) -> None:
        sizes = set()

        def watching(x: Tensor, target: Tensor) -> Tensor:
            sizes.add(len(x))
            return x

        x = torch.rand(1, 6)
        explained = ab.FunctionAttribution(watching)
        explained.check(x, smooth=False)
        sizes.clear()
        ab.bound(explained, x, ab.L2Ball(0.1), 0, ab.Smoothed(draws=333, chunk=16))
        assert sizes == {1, 16}

    def test_chunks_change_nothing_but_the_last_bits(self) -> None:
        network, x = table()
        made = [
            ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), method=replace(METHOD, chunk=chunk))
            for chunk in (7, 40)
        ]
        torch.testing.assert_close(made[0].degrees, made[1].degrees, rtol=1e-4, atol=0)

    def test_memory_does_not_grow_with_the_draws(self) -> None:
        peaks = []
        x = torch.rand(1, 100)
        explained = ab.FunctionAttribution(lambda x, t: x**3)
        for draws in (200, 200, 6000):
            tracemalloc.start()
            ab.bound(explained, x, ab.L2Ball(0.1), 0, ab.Smoothed(draws=draws))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[-1] < 1.1 * peaks[1]

    def test_progress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network, x = table()
        shown = io.StringIO()
        real = smoothed_method.Progress
        console = Console(file=shown, force_terminal=True)
        monkeypatch.setattr(
            smoothed_method, "Progress", lambda disable: real(disable=disable, console=console)
        )
        method = ab.Smoothed(draws=400, progress=True)
        ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05), method=method)
        assert "averaging" in shown.getvalue()
        assert "100%" in shown.getvalue()


class TestBalls:
    @pytest.mark.parametrize("kind", [ab.L2Ball, ab.LinfBall])
    def test_units_equal_rescaling_by_hand(
        self, kind: type[ab.L2Ball], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The plain ball around features in other units, with the same draws."""
        network, x = table()
        network, x = network.double(), x.double()
        unit = torch.tensor([4.0, 1.0, 0.5, 0.0, 1.0, 2.0], dtype=torch.float64)
        free = unit > 0

        def rescaled(z: Tensor, target: Tensor) -> Tensor:
            there = x[:1].repeat(len(z), 1)
            there[:, free] = z * unit[free]
            return ab.Saliency(network)(there, target)

        class Draws:
            """The same whatever is drawn for: numbers of frozen features are left out by hand."""

            def __init__(self, stream: int) -> None:
                self.generator = np.random.default_rng(stream)

            def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
                drawn = self.generator.standard_normal((shape[0], 6))
                return drawn if shape[1] == 6 else drawn[:, free.numpy()]

        monkeypatch.setattr(drawing, "generator_of", lambda _x, _seed, stream: Draws(stream))
        scaled = ab.bound(ab.Saliency(network), x[:1], kind(0.05, scale=unit), 0, METHOD)
        plain = ab.bound(rescaled, (x[:1] / unit)[:, free], kind(0.05), 0, METHOD)
        for name in ("degrees", "shown_degrees", "euclidean", "map", "similarity"):
            torch.testing.assert_close(
                getattr(scaled, name), getattr(plain, name), rtol=1e-6, atol=0
            )
        wrong = ab.bound(ab.Saliency(network), x[:1], kind(0.05), 0, METHOD)
        assert not torch.isclose(wrong.degrees, scaled.degrees, rtol=0.02).any()

    def test_frozen_features_have_no_noise(self) -> None:
        seen = []

        def watching(x: Tensor, target: Tensor) -> Tensor:
            seen.append(x.detach())
            return x

        x = torch.rand(1, 6)
        scale = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
        explained = ab.FunctionAttribution(watching)
        explained.check(x, smooth=False)
        seen.clear()
        ab.bound(explained, x, ab.L2Ball(0.1, scale=scale), 0, METHOD)
        drawn = torch.cat(seen)
        assert (drawn[:, scale == 0] == x[:, scale == 0]).all()
        assert (drawn[1:, scale > 0].std(0) > 0.2).all()

    def test_the_cube_by_the_ball_around_it(self) -> None:
        cube = question(ab.LinfBall(0.02)).bound(METHOD)
        around = question(ab.L2Ball(0.02 * math.sqrt(6))).bound(METHOD)
        torch.testing.assert_close(cube.degrees, around.degrees)
        assert cube.source[0] == "variance form, in the l2 ball of 2.45 times the radius around it"
        inside = question(ab.LpBall(0.02, 1)).bound(METHOD)
        torch.testing.assert_close(inside.degrees, question(ab.L2Ball(0.02)).bound(METHOD).degrees)

    def test_a_ball_that_lies_in_none_is_refused(self) -> None:
        class Odd(ab.L2Ball):
            def enclosing(self, x: Tensor) -> ab.Enclosure:
                return ab.Ball.enclosing(self, x)

        with pytest.raises(ab.InputError, match="lies in a scaled p-ball"):
            question(Odd(0.1)).bound(METHOD)

    def test_units_of_each_example(self) -> None:
        network, x = table()
        scale = torch.stack([torch.ones(6), torch.full((6,), 2.0)])
        made = ab.bound(ab.Saliency(network), x, ab.L2Ball(0.05, scale=scale), method=METHOD)
        first = ab.bound(ab.Saliency(network), x[:1], ab.L2Ball(0.05), method=METHOD)
        assert torch.equal(made.degrees[:1], first.degrees)


class TestMaxEpsilon:
    @pytest.mark.parametrize("threshold", [{"degrees": 15.0}, {"cosine": 0.03}, {"euclidean": 0.1}])
    def test_it_gives_the_threshold_back(self, threshold: dict[str, float]) -> None:
        network, x = table()
        saliency = ab.Saliency(network)
        found = ab.max_epsilon(saliency, x[:1], method=METHOD, **threshold)
        assert found.claim.name == "smoothed"
        assert found.subject == AVERAGED
        assert found.source == ("variance form",)
        bound = ab.bound(saliency, x[:1], ab.L2Ball(found.epsilon.item()), method=METHOD)
        ((kind, value),) = threshold.items()
        assert getattr(bound, kind).item() == pytest.approx(value, rel=1e-3)

    def test_other_balls(self) -> None:
        network, x = table()
        saliency = ab.Saliency(network)
        plain = ab.max_epsilon(saliency, x, method=METHOD, degrees=15)
        cube = ab.max_epsilon(saliency, x, ab.LinfBall(1), method=METHOD, degrees=15)
        torch.testing.assert_close(cube.epsilon, plain.epsilon / math.sqrt(6))

    def test_other_methods_are_refused(self) -> None:
        network, x = table()
        with pytest.raises(ab.InputError, match="known at every radius, got MeanValue"):
            ab.max_epsilon(ab.Saliency(network), x, method=ab.MeanValue(), degrees=15)


class TestAnyAttribution:
    def test_a_function_that_calls_numpy(self) -> None:
        network, x = table()
        weights = network[0].weight.detach().numpy()

        def explain(x: Tensor, target: Tensor) -> np.ndarray:
            return np.maximum(x.numpy() @ weights.T, 0) @ weights

        bound = ab.bound(explain, x, ab.L2Ball(0.05), 0, METHOD)
        assert (bound.degrees < 60).all()
        wrapped = ab.bound(ab.FunctionAttribution(explain), x, ab.L2Ball(0.05), 0, METHOD)
        assert torch.equal(bound.degrees, wrapped.degrees)

    @pytest.mark.filterwarnings("ignore:Setting backward hooks")
    @pytest.mark.parametrize(
        ("name", "shape"), [("GuidedBackprop", (1, 6, 6)), ("LayerGradCam", (1, 6, 6))]
    )
    def test_objects_of_captum(self, name: str, shape: tuple[int, ...]) -> None:
        network, x = images()
        layer = (network[0],) if "Layer" in name else ()
        explained = ab.from_captum(getattr(captum.attr, name)(network, *layer))
        bound = ab.bound(explained, x, ab.L2Ball(0.05), method=METHOD)
        assert bound.map.shape == (2, *shape)
        assert (bound.degrees < 90).all()

    def test_grad_cam_plain_and_upsampled(self) -> None:
        network, x = images()
        small = nn.Sequential(
            nn.Conv2d(1, 3, 3, stride=2, padding=1), *network[1:3], nn.Linear(27, 3)
        )

        def plain(x: Tensor, target: Tensor) -> Tensor:
            features = small[:2](x)
            score = small[2:](features).gather(1, target[:, None]).sum()
            (slope,) = torch.autograd.grad(score, features)
            return (slope.mean((2, 3), keepdim=True) * features).sum(1).relu()

        def upsampled(x: Tensor, target: Tensor) -> Tensor:
            return nn.functional.interpolate(plain(x, target)[:, None], size=6, mode="bilinear")

        for fn, shape in ((plain, (3, 3)), (upsampled, (1, 6, 6))):
            explained = ab.FunctionAttribution(fn, small)
            bound = ab.bound(explained, x, ab.L2Ball(0.05), method=METHOD)
            assert bound.map.shape == (2, *shape)
            assert (bound.degrees < 90).all()

    def test_baselines_of_each_example(self) -> None:
        network, x = table()
        explained = ab.IntegratedGradients(network, steps=3, baseline=torch.rand(2, 6))
        both = ab.bound(explained, x, ab.L2Ball(0.05), method=METHOD)
        assert (both.degrees < 90).all()

    def test_scores_that_are_no_numbers_are_refused(self) -> None:
        broken = ab.FunctionAttribution(lambda x, t: x.clamp_min(0).log())
        with pytest.raises(ab.ModelError, match="finite scores at noisy inputs"):
            ab.bound(broken, torch.full((1, 6), 0.1), ab.L2Ball(0.1), 0, METHOD)


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"sigma": 0.0}, "a finite sigma > 0"),
            ({"sigma": math.inf}, "a finite sigma > 0"),
            ({"draws": 10}, "draws >= 50"),
            ({"draws": 500.0}, "whole numbers: draws >= 50.* got .*draws=500.0"),
            ({"sigma": "a"}, "a finite sigma > 0.* got sigma='a'"),
            ({"seed": -1}, "seed >= 0"),
            ({"alpha": 1.0}, "0 < alpha < 1"),
            ({"chunk": 0}, "chunk >= 1"),
            ({"normaliser": "raw"}, "one of unit, sign, top"),
            ({"form": "best"}, "one of smaller, variance, mean_only"),
            ({"noise": "laplace"}, "one of gaussian, uniform"),
        ],
    )
    def test_mistakes(self, settings: dict[str, object], match: str) -> None:
        with pytest.raises(ab.InputError, match=match):
            ab.Smoothed(**settings)

    def test_k_has_to_be_there(self) -> None:
        assert top_count(None, 784) == 78
        assert top_count(None, 3) == 1
        with pytest.raises(ab.InputError, match="from 1 to 3, the number of scores"):
            top_count(4, 3)
        with pytest.raises(ab.InputError, match=r"a whole number from 1 to 3.* got 1.5"):
            top_count(1.5, 3)

    def test_the_anchors_are_weaker(self) -> None:
        """Mean-only and uniform noise, on the same number of draws."""
        ours = question(ab.L2Ball(0.05)).bound(METHOD).degrees
        for weaker in ({"form": "mean_only"}, {"noise": "uniform"}):
            theirs = question(ab.L2Ball(0.05)).bound(replace(METHOD, **weaker)).degrees
            assert (theirs > ours).all()
