"""What an audit is given: names, objects, values, texts, and mixtures of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from PIL import Image
from torch import nn

import attribound as ab
from attribound.attacks import PGD, AttributionAscent, Through
from attribound.auditing import given
from attribound.auditing.given import data_fingerprint, ranged, samples_of, settings_of, subject_of
from attribound.auditing.settings import AuditSettings, read_settings
from attribound.data import load
from attribound.data.examples import InMemory
from auditing import cases, tiny

NET = tiny.build()
PAIR = (torch.rand(5, 64), torch.arange(5))


class TestSettings:
    def test_objects_at_hand_are_named(self) -> None:
        settings = settings_of(NET, PAIR, {})
        assert (settings.model, settings.data) == ("given:Sequential", "given:tensors")
        assert settings_of(NET, load("digits"), {}).data == "given:digits"
        assert settings_of("zoo:x", "digits", {}).model == "zoo:x"
        assert settings.claims
        assert settings.attacks

    @pytest.mark.parametrize(
        "attributions",
        [
            [ab.Saliency(NET)],
            ab.Saliency(NET),
            ab.Saliency(ab.Classifier(NET)),
            ab.Saliency(),
            ab.Saliency,
            "saliency",
            ["saliency"],
            {"kind": "saliency"},
        ],
        ids=repr,
    )
    def test_an_attribution_of_the_model_is_its_recipe(self, attributions) -> None:
        (own,) = settings_of(NET, PAIR, {"attributions": attributions}).attributions
        assert own == ab.Saliency()
        assert own.model is None

    @pytest.mark.parametrize(
        ("model", "attribution"),
        [
            (NET, ab.Saliency(tiny.build())),
            (NET, ab.FunctionAttribution(lambda x, _: x, tiny.build(), label="f")),
            ("auditing.tiny:build", ab.Saliency(NET)),
        ],
        ids=["another", "of a function", "beside a name"],
    )
    def test_one_of_another_model_is_refused(self, model, attribution) -> None:
        match = r"attribution \w+: expected one of the audited model, or a recipe, got one of "
        with pytest.raises(ab.InputError, match=match):
            settings_of(model, PAIR, {"attributions": [attribution]})

    def test_also_in_settings_that_are_complete(self) -> None:
        settings = AuditSettings("auditing.tiny:build", "digits", attributions=(ab.Saliency(NET),))
        with pytest.raises(ab.InputError, match="one of another Sequential"):
            settings_of(settings, None, {})

    def test_values_by_name(self) -> None:
        settings = settings_of(
            NET,
            PAIR,
            {"attacks": {"pgd": PGD()}, "mean_value": ab.MeanValue(shells=3)},
        )
        assert settings.attacks == {"pgd": PGD()}
        assert ab.MeanValue(shells=3) in settings.claims

    def test_settings_that_leave_something_open_are_completed(self) -> None:
        """Else such an audit would make no claims and no attacks."""
        bare = AuditSettings("auditing.tiny:build", "digits", limit=3)
        assert bare.claims is bare.attacks is None
        settings = settings_of(bare, None, {})
        assert settings == read_settings(bare.document())
        assert settings.claims == bare.protocol.claims()
        assert settings_of(settings, None, {}) == settings
        assert settings_of(bare, PAIR, {}).data == "given:tensors"

    def test_whole_settings_and_single_ones_together(self) -> None:
        with pytest.raises(ab.InputError, match=r"expected complete settings.*got .*and limit, k;"):
            settings_of(AuditSettings("m", "d"), None, {"limit": 3, "k": 2})

    def test_no_data(self) -> None:
        with pytest.raises(ab.InputError, match=r"data: .*say what to audit the model on"):
            settings_of(NET, None, {})

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"steps": 3}, "steps: expected only settings of AuditSettings"),
            ({"attributions": "ig:step=3"}, "attributions.0.step: expected only settings of ig"),
            ({"attacks": {"a": {"kind": "pgd", "x": 1}}}, "attacks.a.x: expected only settings"),
        ],
    )
    def test_unknown_keys_are_named(self, options, named) -> None:
        with pytest.raises(ab.InputError, match=named):
            settings_of(NET, PAIR, options)

    def test_a_calibration_as_an_object_must_be_stored_first(self, tmp_path) -> None:
        """The run could not tell it from another one."""
        net = cases.plain().double()
        method = ab.SplitConformal(attack=AttributionAscent(steps=1), alpha=0.5)
        made = ab.calibrate(ab.Saliency(net), cases.batch().x, ab.L2Ball(0.1), method=method)
        for own in ({"calibrated": made}, {"claims": [made]}, {"calibrated": made.as_method()}):
            with pytest.raises(
                ab.InputError, match=r"object in Calibrated.calibration; .*calibration.save"
            ):
                settings_of(net, PAIR, own)
        made.save(tmp_path / "c.json")
        stored = ab.Calibrated(str(tmp_path / "c.json"))
        assert stored in settings_of(net, PAIR, {"calibrated": stored}).claims

    def test_nor_may_any_other_object_be_hidden_in_a_value(self) -> None:
        hidden = Through(PGD(), betas=(20.0,), surrogate=ab.Saliency(NET))
        for attacks in ({"a": hidden}, {"a": hidden.repeat(2)}, [hidden]):
            with pytest.raises(ab.InputError, match=r"got an object in Through.surrogate"):
                settings_of(NET, PAIR, {"attacks": attacks})
        shown = PGD(progress=True).through(20.0)
        assert settings_of(NET, PAIR, {"attacks": {"a": shown}}).attacks == {"a": shown}


class TestSamples:
    def settings(self, **changes) -> AuditSettings:
        return read_settings({"model": "m", "data": "given:tensors", **changes})

    def test_they_are_cut_into_batches(self) -> None:
        samples = samples_of(PAIR, self.settings(batch=2))
        assert len(samples) == 5
        batches = [samples.batch(number) for number in range(3)]
        assert [len(batch) for batch in batches] == [2, 2, 1]
        assert torch.equal(torch.cat([batch.x for batch in batches]), PAIR[0])
        assert torch.equal(torch.cat([batch.labels for batch in batches]), PAIR[1])
        assert torch.cat([batch.indices for batch in batches]).tolist() == [*range(5)]

    def test_however_they_are_cut_they_are_recognised(self) -> None:
        prints = {samples_of(PAIR, self.settings(batch=n)).fingerprint for n in (1, 2, 16)}
        assert len(prints) == 1
        assert samples_of(PAIR, self.settings(limit=2)).fingerprint not in prints

    @pytest.mark.parametrize("wrong", [(torch.ones(2, 4),), ([1], [2]), 3])
    def test_no_pair_of_tensors(self, wrong) -> None:
        with pytest.raises(ab.InputError, match=r"a tensor x, or x and labels as a pair"):
            samples_of(wrong, self.settings())

    def test_a_tensor_alone_has_no_labels(self) -> None:
        samples = samples_of(PAIR[0], self.settings())
        assert torch.equal(samples.batch(0).x, PAIR[0][: samples.size])
        assert set(samples.examples.labels.tolist()) == {-1}
        data = torch.utils.data.TensorDataset(*PAIR)
        assert samples_of(data, self.settings()).fingerprint == (
            samples_of(PAIR, self.settings()).fingerprint
        )

    def test_a_split_of_an_object(self) -> None:
        with pytest.raises(ab.InputError, match="split: expected none"):
            samples_of(PAIR, self.settings(split="test"))
        with pytest.raises(ab.InputError, match="size: expected none"):
            samples_of(PAIR, self.settings(size=4))

    def test_images_of_mixed_sizes(self, tmp_path) -> None:
        for name, size in (("cats/a", (8, 6)), ("cats/b", (5, 9)), ("dogs/a", (8, 6))):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            Image.new("RGB", size).save(tmp_path / f"{name}.png")
        mixed = {"data": str(tmp_path), "limit": None, "skip": 0}
        with pytest.raises(ab.InputError, match=r"one size.*; add size=128, or --set size=128, to"):
            samples_of(None, self.settings(**mixed))
        assert samples_of(None, self.settings(**mixed, size=4)).batch(0).x.shape == (3, 3, 4, 4)
        with pytest.raises(ab.InputError, match="size: expected 1 or more"):
            self.settings(size=0)

    def test_none_are_left(self) -> None:
        with pytest.raises(ab.InputError, match=r"at least one example.*after skipping 9 of 5"):
            samples_of(PAIR, self.settings(skip=9))

    def test_an_object_that_is_gone(self) -> None:
        with pytest.raises(
            ab.InputError, match=r"data: expected a name.*give the same object again"
        ):
            samples_of(None, self.settings())
        with pytest.raises(ab.InputError, match=r"model: .*give the same object again"):
            subject_of(self.settings(model="given:Net"), None)


def examples(values, labels) -> InMemory:
    return InMemory("some", torch.tensor(values), torch.tensor(labels), ["a", "b"])


def test_values_labels_and_order_count_and_names_do_not(monkeypatch) -> None:
    values, labels = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 1, 1]
    first = data_fingerprint(examples(values, labels))
    assert first.startswith("sha256:")
    renamed = InMemory("other", torch.tensor(values), torch.tensor(labels), ["x", "y", "z"])
    assert data_fingerprint(renamed) == first
    others = [
        examples([[1.0, 2.0], [3.0, 4.5], [5.0, 6.0]], labels),
        examples(values, [0, 0, 1]),
        examples(values[::-1], labels),
        examples(values[:2], labels[:2]),
    ]
    assert len({first, *map(data_fingerprint, others)}) == 5
    monkeypatch.setattr(given, "_AT_ONCE", 2)  # pieces make no difference
    assert data_fingerprint(examples(values, labels)) == first


class TestRange:
    """Cubes around images keep to [0, 1], unless somebody says otherwise."""

    def balls(self, data="digits", model="auditing.tiny:build", **options) -> tuple[ab.Ball, ...]:
        options = {"balls": ["l2:epsilon=0.1", "linf:epsilon=0.05"], **options}
        settings = settings_of(model, data, options)
        return ranged(settings, data, samples_of(data, settings)).balls

    PLAIN = (ab.L2Ball(0.1), ab.LinfBall(0.05))

    def test_it_is_that_of_images_in_cubes(self) -> None:
        cut = (ab.L2Ball(0.1), ab.LinfBall(0.05, low=0, high=1))
        assert self.balls() == cut
        assert self.balls(data=load("digits")) == cut
        settings = AuditSettings("m", "digits", balls=self.PLAIN)
        whole = settings_of(settings, None, {})
        assert ranged(whole, None, samples_of(None, whole)).balls == cut

    @pytest.mark.parametrize(
        "more",
        [{"value_range": "none"}, {"protocol": "paper"}, {"balls": list(PLAIN)}],
        ids=["none", "paper", "balls of a program"],
    )
    def test_who_asks_for_whole_balls_gets_them(self, more) -> None:
        assert self.balls(**more) == self.PLAIN

    def test_balls_of_a_program_may_ask_for_it(self) -> None:
        cut = (ab.LinfBall(0.05, low=0, high=1),)
        assert self.balls(balls=ab.LinfBall(0.05), value_range="data") == cut

    def test_tensors_of_a_program_may_have_any_value(self) -> None:
        assert self.balls(data=(torch.rand(3, 1, 8, 8), torch.arange(3))) == self.PLAIN

    def test_limits_of_a_ball_stay(self) -> None:
        assert self.balls(balls="linf:epsilon=0.05,low=-1") == (ab.LinfBall(0.05, low=-1),)

    def test_a_ball_of_a_users_own_is_asked(self) -> None:
        settings = settings_of("m", "digits", {"balls": [cases.Frozen(0.1)]})
        settings = replace(settings, value_range="data")
        assert ranged(settings, "digits", samples_of("digits", settings)).balls == settings.balls


class TestSharpened:
    """``smooth = "auto"``: a number before anything is measured."""

    def audited(self, model: nn.Module, **more) -> ab.Run:
        x = torch.rand(20, 6, generator=torch.Generator().manual_seed(0))
        settings = {"attributions": "saliency", "balls": ab.L2Ball(0.05), "smooth": "auto"}
        return ab.audit(model, (x, torch.zeros(20, dtype=torch.long)), limit=5, **settings, **more)

    def test_the_beta_is_that_of_the_pilot_and_recorded_with_its_figures(self) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3)).eval()
        run = self.audited(model, batch=2)
        chosen = run.manifest.model["smooth"]
        assert run.manifest.settings["smooth"] == chosen["beta"] == chosen["tried"][-1]["beta"]
        assert chosen["close"]
        assert chosen["pilot"] == 5, "all samples, not those of a batch"
        assert chosen["tried"][-1]["degrees"] < 5
        assert {row["subject"] for row in run.bounds().to_pylist()} == {"copy", "averaged"}

    def test_a_network_without_kinks_needs_no_copy(self) -> None:
        model = nn.Sequential(nn.Linear(6, 20), nn.Softplus(), nn.Linear(20, 3)).eval()
        run = self.audited(model)
        assert run.manifest.settings["smooth"] is None
        assert run.manifest.model["smooth"]["reason"] == "the network has no kinks"
        assert {row["subject"] for row in run.bounds().to_pylist()} == {"yours", "averaged"}
