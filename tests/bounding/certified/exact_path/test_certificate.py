"""The certificate against dense samples of tiny networks; every step broken once, and caught."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import attribound as ab
import laws
from attribound.attributions.exact.piecewise import piecewise
from attribound.balls import enclosure
from attribound.bounding.certified import quadratic
from attribound.bounding.certified.exact_path import (
    certificate,
    certify_exact,
    flips,
    items,
    norm,
    pieces,
    without_offsets,
)
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attributions.exact import reference
from bounding.certified import reference as reference_of_proofs
from bounding.certified.exact_path import tiny


@pytest.mark.parametrize("seed", range(8))
def test_no_sample_moves_further(seed) -> None:
    of = tiny.case(seed)
    found = tiny.certificate(of)
    assert not tiny.violated(of, found)
    torch.testing.assert_close(found.map, of.clean[0], rtol=0, atol=1e-12)
    assert math.isfinite(found.value)


@pytest.mark.parametrize("radius", [None, 1e-2, 1e-5])
@pytest.mark.parametrize("seed", [0, 3, 6, 12, 13, 16])
def test_all_holds_on_a_machine_with_four_digits(seed, radius) -> None:
    """Whatever rounding is, its size is stated: so all holds where it is enormous.

    The scores at x are then wrong themselves: their ends have to say so.
    """
    of = tiny.case(seed, radius)
    assert not tiny.violated(of, tiny.certificate(of, rough=True))
    assert not tiny.wrongly_enclosed(of)


@pytest.mark.parametrize(("name", "seed"), [("error", 6), ("adjoint_error", 0)])
def test_errors_that_are_left_out_are_caught_there(name, seed) -> None:
    def broken(found: pieces.Pieces) -> pieces.Pieces:
        less = tuple(replace(each, **{name: 0 * getattr(each, name)}) for each in found.layers)
        return replace(found, layers=less)

    assert tiny.wrongly_enclosed(tiny.case(seed, 1e-5), broken)


def test_scores_that_are_said_to_be_exact_are_caught_there(monkeypatch) -> None:
    right = certificate.pieces
    monkeypatch.setattr(
        certificate,
        "pieces",
        lambda *asked: replace(p := right(*asked), mean_error=0 * p.mean_error),
    )
    of = tiny.case(3)
    assert tiny.violated(of, tiny.certificate(of, rough=True))


@pytest.mark.parametrize("cube", [False, True])
def test_pairs_and_directions_are_those_of_their_worst_points(cube) -> None:
    """What is said of ``c + M v + H s + rest t`` is so, and no more than that, at its ends."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    size, proved, open_ = 4, 0, 0
    for _ in range(30):
        centre, matrix, columns = 0.1 * draw(size), 0.1 * draw(size, 3), 0.1 * draw(size, 2)
        rest, error, scores = 0.1 * draw(size).abs(), 0.1 * draw(size).abs(), draw(size)
        pairs = certificate._Pairs(centre, matrix, columns, rest, error, cube)

        def furthest(along, matrix=matrix, centre=centre, columns=columns, rest=rest):
            row = along @ matrix
            v = row.sign() if cube else row / row.norm()
            return centre + matrix @ v + columns @ (along @ columns).sign() + rest * along.sign()

        along = draw(6, size)
        low, high = pairs.along(along)
        for row, least, most in zip(along, low, high, strict=True):
            assert most.item() == pytest.approx((row @ furthest(row)).item(), rel=1e-6)
            assert least.item() == pytest.approx((row @ furthest(-row)).item(), rel=1e-6)
            assert most >= row @ furthest(row)
            assert least <= row @ furthest(-row)
        for i, j in itertools.permutations(range(size), 2):
            for sign, other in itertools.product((1.0, -1.0), repeat=2):
                ahead = sign * torch.eye(size)[i].double() - other * torch.eye(size)[j].double()
                worst = ahead @ (scores + furthest(-ahead)) - error[i] - error[j]
                above = bool(pairs._above(scores, i, sign, other)[j])
                assert above == (worst.item() > 0), "no such margin is near zero"
                proved, open_ = proved + above, open_ + (not above)
    assert min(proved, open_) > 100


def test_residuals_stay_in_their_ends_and_below_their_growth() -> None:
    """Of any bounds on pieces of t: w - slope t, and its square."""
    generator = torch.Generator().manual_seed(0)
    of = tiny.case(1)
    network = piecewise(of.net, (2,) if of.x.shape[1] == 2 else (3,))
    layer = pieces.pieces(network, torch.zeros_like(of.x), of.x, 0).layers[0]
    which = torch.zeros(5, dtype=torch.long), torch.arange(5)
    edges = torch.linspace(-1, 1, 9, dtype=torch.float64) * torch.rand(5, 1).double()
    low = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    high = low + torch.rand(5, 8, generator=generator, dtype=torch.float64)
    low[1], high[1] = -low[1].abs(), low[1].abs()
    found = items._fitted(layer, which, edges, low, high)
    for share in torch.linspace(0, 1, 11, dtype=torch.float64):
        t = edges[:, :-1] + share * (edges[:, 1:] - edges[:, :-1])
        line, limit = (
            found.slope[:, None] * t,
            found.constant[:, None] + found.growth[:, None] * t**2,
        )
        for end in (low, high):
            assert (end - line >= found.low[:, None]).all()
            assert (end - line <= found.high[:, None]).all()
            assert ((end - line) ** 2 <= limit).all()
    assert torch.equal(found.least, low.amin(1))
    assert torch.equal(found.most, high.amax(1))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 8.0, math.inf])
def test_the_ball_of_a_path_holds_the_ball_that_was_asked_for(p) -> None:
    scale = torch.tensor([1.0, 0.0, 2.5]).double()
    x = torch.zeros(1, 3).double()
    asked = ab.LpBall(0.3, p, scale=scale)
    around = PathBall.around(enclosure(asked, x), 0, 3)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4000, 3, generator=generator, dtype=torch.float64)
    points = asked.maximiser(drawn, x.expand(4000, 3))
    rows = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    assert ((points @ rows.T).amax(0) <= around.of(rows) * (1 + 1e-12)).all()
    assert points.abs().max() <= around.furthest * (1 + 1e-12)
    assert (points * rows[0]).norm(dim=1).max() <= around.times(rows[0].abs()) * (1 + 1e-12)
    if p in (2.0, math.inf):
        assert around.of(rows).tolist() == pytest.approx(
            (points @ rows.T).amax(0).tolist(), rel=0.05
        )


@pytest.mark.parametrize("seed", [1, 2, 7, 9])
def test_what_a_proof_lacks_is_added(seed, monkeypatch) -> None:
    """Certificates hold, and are not smaller, whatever the factorisation leaves open."""
    of = tiny.case(seed)
    first = tiny.certificate(of).value
    reference_of_proofs.poor_proofs(monkeypatch, norm, quadratic)
    found = tiny.certificate(of)
    assert not tiny.violated(of, found)
    assert found.value >= first * (1 - 1e-6)


@pytest.mark.slow
def test_no_sample_of_300_networks_moves_further() -> None:
    assert not [
        seed for seed in range(8, 308) if tiny.violated(c := tiny.case(seed), tiny.certificate(c))
    ]


def _no_switches(monkeypatch) -> None:
    """Only what switches at x itself counts."""
    real = certificate.flips
    monkeypatch.setattr(certificate, "flips", lambda p, b: real(p, replace(b, epsilon=0.0)))


def _flips_changed(monkeypatch, change) -> None:
    real = certificate.flips
    monkeypatch.setattr(
        certificate,
        "flips",
        lambda p, b: [change(layer, of) for layer, of in zip(p.layers, real(p, b), strict=True)],
    )


def _adjoints_stay(monkeypatch) -> None:
    """Derivatives by outputs stay what they are at x."""
    _flips_changed(
        monkeypatch, lambda layer, of: replace(of, low=layer.adjoint, high=layer.adjoint)
    )


def _layers_apart(monkeypatch) -> None:
    """Neurons before do not move those after when they switch."""
    real = flips._forward

    def apart(*asked):
        return real(*asked[:-1], [replace(each, most=0 * each.most) for each in asked[-1]])

    monkeypatch.setattr(flips, "_forward", apart)


def _wrong_ends(monkeypatch) -> None:
    """Lengths at the wrong ends of pieces: the least is taken for the most."""
    real = items._switched
    monkeypatch.setattr(items, "_PIECES", 4)
    monkeypatch.setattr(items, "_switched", lambda *asked: real(*asked[:-1], asked[-1].flip(1)))


def _no_residual(monkeypatch) -> None:
    """First order taken for the whole truth."""
    real = certificate.items
    monkeypatch.setattr(
        certificate, "items", lambda p, f: replace(i := real(p, f), low=0 * i.low, high=0 * i.high)
    )


def _no_growth(monkeypatch) -> None:
    """The residual is as small everywhere as it is near zero."""
    real = certificate.items
    monkeypatch.setattr(
        certificate, "items", lambda p, f: replace(i := real(p, f), growth=0 * i.growth)
    )


def _displacement_stays(monkeypatch) -> None:
    """The factor x - baseline does not meet the change of the gradient."""
    monkeypatch.setattr(certificate, "_change", lambda moving: 0 * moving.rows.sum(0))


#: Networks of which at least one shows it.
CAUGHT_AT = {
    "_no_switches": (1,),
    "_adjoints_stay": (6,),
    "_layers_apart": (84,),
    "_wrong_ends": (1,),
    "_no_residual": (2,),
    "_no_growth": (7,),
    "_displacement_stays": (7,),
}


@pytest.mark.parametrize(
    "broken",
    [
        _no_switches,
        _adjoints_stay,
        _layers_apart,
        _wrong_ends,
        _no_residual,
        _no_growth,
        _displacement_stays,
    ],
)
def test_every_step_broken_is_caught(monkeypatch, broken) -> None:
    broken(monkeypatch)
    tried = (tiny.case(seed) for seed in CAUGHT_AT[broken.__name__])
    assert any(tiny.violated(of, tiny.certificate(of)) for of in tried)


def test_the_batch_has_the_claim_certified() -> None:
    """Through ``bound``: every p, float32, one baseline each, and attacks below it."""
    net, x = reference.mlp((12, 10)).float(), reference.rows(3).float()
    ig = ab.IntegratedGradients(net, baseline=0.1 * torch.ones_like(x), quadrature="exact")
    for ball in (ab.L2Ball(0.2), ab.LinfBall(0.1), ab.LpBall(0.2, 3), ab.LpBall(0.2, 1)):
        made = ab.bound(ig, x, ball, claim="certified")
        assert made.claim.name == "certified"
        assert made.subject == "your network"
        assert set(made.source) == {"exact path"}
        laws.attack_below(ab.attacks.AttributionAscent(steps=5)(ig, x, ball), made)


@pytest.mark.parametrize("multiply", [True, False])
def test_without_offsets_it_is_that_of_input_times_gradient(multiply) -> None:
    """Which it is: from zero the gradient is the same all along the path. It holds across jumps."""
    net, x = reference.without_biases(), reference.rows(3).double()
    jumping = ab.IntegratedGradients(net, quadrature="exact", multiply_by_inputs=multiply)
    same = ab.InputXGradient(net) if multiply else ab.Saliency(net)
    ball = ab.L2Ball(0.05)
    made = ab.bound(jumping, x, ball, claim="certified")
    assert torch.equal(made.euclidean, ab.bound(same, x, ball, claim="certified").euclidean)
    assert not any(ab.Status.JUMPS in status for status in made.status)
    looser = certify_exact(jumping, x, ball, made.target).value
    assert made.euclidean.sum() < looser.sum()
    for row in range(3):
        many, label = x[row].expand(300, -1), made.target[row].expand(300)
        moved = jumping(many + ball.sample_sphere(many, 0), label) - jumping(many, label)
        assert moved.norm(dim=1).max() <= made.euclidean[row]
    told = ab.reasons(jumping, x, ball, k=2, claim="certified", attack=False)
    assert torch.equal(told.low, ab.reasons(same, x, ball, 2, claim="certified", attack=False).low)
    for other in (reference.mlp((12, 10)), reference.mlp((12,), hinge=lambda: nn.LeakyReLU(2.0))):
        assert without_offsets(ab.IntegratedGradients(other, quadrature="exact"), x) is None
    elsewhere = ab.IntegratedGradients(net, baseline=0.1, quadrature="exact")
    assert without_offsets(elsewhere, x) is None


@pytest.mark.parametrize("left_out", [False, True])
def test_inputs_and_maps_in_float32_count(left_out, monkeypatch) -> None:
    """In balls of a few roundings x + delta is elsewhere than delta says, and maps are rounded."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)).eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
        net[0].bias.fill_(-1.0)
        net[2].weight.copy_(torch.tensor([[2.0], [0.0]]))
    ig, ball = ab.IntegratedGradients(net, label=0, quadrature="exact"), ab.L2Ball(1e-7)
    x = torch.tensor([[0.7, 0.6]])
    many = x.expand(500, -1)
    moved = ig(many + ball.project(ball.sample_sphere(many, 0), many)) - ig(x)
    if left_out:
        monkeypatch.setattr(torch, "finfo", lambda dtype: SimpleNamespace(eps=0.0))
    proved = certify_exact(ig, x, ball, torch.tensor([0])).value
    assert (moved.norm(dim=1).max() > proved[0]) == left_out


def test_as_the_ball_shrinks_it_becomes_first_order() -> None:
    net, x = reference.mlp((12, 10)), reference.rows(3)
    ig, ball = ab.IntegratedGradients(net, quadrature="exact"), ab.L2Ball(1e-5)
    ratio = (
        ab.bound(ig, x, ball, claim="certified").euclidean / ab.bound(ig, x, ball).xi.lower / 1e-5
    )
    assert (ratio >= 1).all()
    assert (ratio <= 1.05).all()  # 48 pieces of t


def test_many_features_have_the_first_of_both_bounds(monkeypatch) -> None:
    of = tiny.case(2)
    both = tiny.certificate(of).value
    monkeypatch.setattr(certificate, "MOST_FEATURES", 1)
    assert both <= tiny.certificate(of).value
    assert not tiny.violated(of, tiny.certificate(of))


def test_refuses_what_it_cannot_hold_and_what_is_not_convex() -> None:
    x, target = reference.rows(1), torch.tensor([0])
    ig = ab.IntegratedGradients(reference.mlp((12, 10)), quadrature="exact")
    with pytest.raises(ab.MemoryLimitError, match="GiB for 5 features and 22 neurons"):
        ab.bound(ig, x, ab.L2Ball(0.1), method=ab.Certified(memory_limit=1000))
    steep = ab.IntegratedGradients(
        reference.mlp((6,), hinge=lambda: nn.LeakyReLU(2.0)), quadrature="exact"
    )
    with pytest.raises(ab.ModelError, match="a LeakyReLU of slope 2"):
        certify_exact(steep, x, ab.L2Ball(0.1), target)


def test_top_features_that_stay() -> None:
    """In a ball that moves nothing all stay, in a large one none."""
    of = tiny.case(1)
    still = tiny.certificate(replace(of, ball=replace(of.ball, epsilon=1e-9)))
    assert still.top_that_stay(1) == 1
    assert tiny.certificate(replace(of, ball=replace(of.ball, epsilon=9.0))).top_that_stay(1) == 0
