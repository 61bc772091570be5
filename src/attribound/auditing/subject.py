"""What an audit looks at: a model, its attributions, and what they need."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from attribound.attributions import Attribution, Classifier
from attribound.auditing.protocols import complete
from attribound.auditing.settings import AuditSettings
from attribound.auditing.sources import load_model
from attribound.balls import LpBall
from attribound.basics.errors import InputError, KinkError
from attribound.bounding.calibrated import Calibration
from attribound.bounding.guarantees import Method
from attribound.networks import smooth
from attribound.networks.fingerprint import fingerprint

#: Of a calibration for every attribution and ball: itself, or why there is none.
Calibrations = dict[tuple[str, LpBall], Calibration | str]


@dataclass(frozen=True, eq=False)
class Subject:
    """A model made ready for an audit.

    Attributes:
        settings: complete.
        name: of the model.
        model: as it was loaded.
        audited: what is bounded and attacked: its smooth copy, if the settings ask for one.
        attributions: of ``audited``, by name.
        originals: of ``model`` by the same names; empty without a smooth copy.
        calibrations: by attribution and ball.
        details: where the model came from.
    """

    settings: AuditSettings
    name: str
    model: nn.Module
    audited: nn.Module
    attributions: dict[str, Attribution]
    originals: dict[str, Attribution]
    calibrations: Calibrations
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, settings: AuditSettings) -> Subject:
        """Load the model that the settings name."""
        found = load_model(settings.model, settings.weights)
        return cls.of(settings, found.model, found.name, found.details)

    @classmethod
    def of(
        cls,
        settings: AuditSettings,
        model: nn.Module,
        name: str = "model",
        details: dict[str, Any] | None = None,
    ) -> Subject:
        """Use a model that is there already; it is moved to the device and dtype of the audit."""
        whole = complete(settings)
        model = model.to(whole.device, whole.torch_dtype).eval()
        audited = model if whole.smooth is None else smooth(model, whole.smooth).eval()
        # One classifier for all attributions, so that the model is probed once.
        attributions, originals = (
            {each.name: each.factory(classifier) for each in whole.attributions}
            for classifier in (Classifier(audited), Classifier(model))
        )
        return cls(
            settings=whole,
            name=name,
            model=model,
            audited=audited,
            attributions=attributions,
            originals={} if audited is model else originals,
            calibrations=_calibrations(whole, attributions),
            details=details or {},
        )

    @property
    def fingerprint(self) -> str:
        """Recognises the model, as it was loaded."""
        return fingerprint("model", self.model)

    def place(self, x: Tensor) -> Tensor:
        """``x`` where the model is, in its dtype."""
        return x.to(self.settings.device, self.settings.torch_dtype)

    def refuse_kinks(self, x: Tensor) -> None:
        """Refuse a network with kinks before anything is computed.

        A model that fails on ``x`` for other reasons passes: that is the sample's own error.

        Raises:
            KinkError: the model is not smooth.
        """
        classifier = next(iter(self.attributions.values())).classifier  # all have the same
        assert classifier is not None
        try:
            classifier.check(self.place(x[:1]), smooth=True)
        except KinkError as error:
            raise self.kinked(error) from error
        except Exception:  # the sample's own fault, recorded when it is measured
            return

    def kinked(self, error: KinkError) -> KinkError:
        """``error`` with what to do about it in an audit."""
        if self.settings.smooth is not None:
            return error
        return KinkError(
            f"model {self.name}",
            expected="a smooth network, or the setting smooth",
            got=str(error).rpartition(";")[0],  # without the remedy outside of audits
            remedy="set smooth (--smooth 20): the audit then bounds and attacks a copy with "
            "softplus of that beta, and judges the attacks on the original, too",
        )


def default_k(features: int) -> int:
    """The paper's 100, or 1000 for larger inputs; at most a third, above which all agree.

    >>> default_k(784), default_k(3072), default_k(64)
    (100, 1000, 22)
    """
    return min(100 if features <= 1024 else 1000, math.ceil(features / 3))


def top(settings: AuditSettings, features: int) -> int:
    """The k of top-k, from settings that may leave it out."""
    return min(settings.k or default_k(features), features)


def methods(settings: AuditSettings) -> dict[str, Method]:
    """The effort of every bound, by claim, from complete settings."""
    first, mean, proof = settings.first_order, settings.mean_value, settings.certified
    assert first is not None
    assert mean is not None
    assert proof is not None
    built = first.build()
    return {
        "first_order": built,
        "mean_value": mean.build(built),
        "certified": proof.build(),
    }


def _calibrations(settings: AuditSettings, attributions: dict[str, Attribution]) -> Calibrations:
    if "calibrated" not in (settings.claims or ()):
        return {}
    stored = _stored(settings.calibration)
    efforts = methods(settings)
    found: Calibrations = {}
    for name, attribution in attributions.items():
        for ball in (ball for each in settings.balls for ball in each.balls):
            faults = [_fault(each, attribution, ball, efforts) for each in stored]
            if None in faults:
                found[name, ball] = stored[faults.index(None)]
            elif len(faults) == 1:
                found[name, ball] = str(faults[0])
            else:
                found[name, ball] = (
                    f"none of {len(stored)} calibrations is for this model, attribution, ball and "
                    "base bound"
                )
    return found


def _fault(
    calibration: Calibration, attribution: Attribution, ball: LpBall, efforts: dict[str, Method]
) -> str | None:
    """Why a calibration is not for this attribution and ball; None if it is."""
    try:
        calibration.check(attribution, ball, efforts[calibration.provenance.claim.name.lower()])
    except InputError as error:
        return str(error)
    return None


def _stored(path: str | None) -> list[Calibration]:
    """The calibrations in a file or folder; none without a path."""
    if path is None:
        return []
    place = Path(path)
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    return [Calibration.load(file) for file in files]
