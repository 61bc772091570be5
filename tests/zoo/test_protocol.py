from __future__ import annotations

from dataclasses import replace

import pytest

import attribound as ab
import tiny_zoo
from attribound.attacks import IFIA, MassCentre, TopK
from attribound.values import from_spec, to_spec
from attribound.zoo import AttributionCheck, CardProtocol

PROTOCOL = tiny_zoo.quick()


def test_it_is_its_own_setting() -> None:
    plain = to_spec(PROTOCOL, whole=True)
    assert plain["predictions"]["ball"]["kind"] == "linf"
    assert plain["attributions"]["attack"]["objective"] == {"kind": "top_k", "k": 8}
    assert from_spec(plain, CardProtocol) == PROTOCOL


def test_any_attribution_and_ball_can_be_measured_with() -> None:
    other = replace(
        PROTOCOL.attributions, attribution=ab.Saliency(), ball=ab.L2Ball(0.3), attack=IFIA(TopK(3))
    )
    changed = replace(PROTOCOL, attributions=other)
    again = from_spec(to_spec(changed, whole=True), CardProtocol)
    assert again.attributions == other
    assert (again.attributions.k, again.attributions.attribution.name) == (3, "saliency")


@pytest.mark.parametrize("objective", [MassCentre(), TopK()])
def test_an_attack_without_a_number_of_features_is_refused(objective) -> None:
    own = PROTOCOL.attributions
    with pytest.raises(ab.InputError, match="expected IFIA on the k most important features"):
        AttributionCheck(
            images=None, attribution=own.attribution, ball=own.ball, attack=IFIA(objective)
        )


def test_the_whole_test_set_if_asked_for() -> None:
    few = PROTOCOL
    assert few.predictions.images == 40
    assert few.whole().predictions.images is None
    assert few.whole().attributions == few.attributions
    assert few.whole().limited(7).predictions.images == 7
