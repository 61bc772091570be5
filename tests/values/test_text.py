from __future__ import annotations

import torch

import attribound as ab
from attribound.attacks import PGD, Ascend, AttributionAscent, BestOf
from attribound.values import spec_text, to_text


def test_texts_are_what_one_would_type() -> None:
    assert to_text(ab.Saliency()) == "saliency"
    assert to_text(ab.LinfBall(0.5, low=0)) == "linf:epsilon=0.5,low=0.0"
    assert (
        to_text(ab.IntegratedGradients(multiply_by_inputs=False)) == "ig:multiply_by_inputs=false"
    )
    assert to_text(AttributionAscent(step=Ascend(0.5))) == "ascent:step=(ascend:size=0.5)"
    assert to_text(AttributionAscent(step=Ascend())) == "ascent:step=ascend"
    assert to_text(BestOf(PGD(), PGD(steps=3))) == "best_of:attacks=(pgd,(pgd:steps=3))"


def test_lists_of_many_numbers_are_cut_short() -> None:
    text = to_text(ab.IntegratedGradients(baseline=torch.zeros(1000).double()))
    assert len(text) < 80
    assert text.endswith("...)")


def test_plain_data_without_a_kind() -> None:
    assert spec_text({"a": 1, "b": None}) == "a=1,b=none"
    assert spec_text({"inner": {"a": 1}}) == "inner=(a=1)"
    assert spec_text([1, "x", True]) == "(1,x,true)"
