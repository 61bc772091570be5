"""What an audit looks at: a model, its attributions, and what they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from attribound.attacks import usual_k
from attribound.attributions import Attribution, Classifier
from attribound.auditing.settings import AuditSettings
from attribound.auditing.sources import load_model
from attribound.basics.errors import KinkError
from attribound.networks import smooth
from attribound.networks.fingerprint import fingerprint


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
        details: where the model came from.
    """

    settings: AuditSettings
    name: str
    model: nn.Module
    audited: nn.Module
    attributions: dict[str, Attribution]
    originals: dict[str, Attribution]
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
        model = model.to(settings.device, settings.torch_dtype).eval()
        assert settings.smooth != "auto"  # chosen before
        audited = model if settings.smooth is None else smooth(model, settings.smooth).eval()
        # One classifier for all attributions, so that the model is probed once.
        attributions, originals = (
            {each.name: each.of(classifier) for each in settings.attributions}
            for classifier in (Classifier(audited), Classifier(model))
        )
        return cls(
            settings=settings,
            name=name,
            model=model,
            audited=audited,
            attributions=attributions,
            originals={} if audited is model else originals,
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

        Nothing is refused where no claim needs slopes. A model that fails on ``x`` for other
        reasons passes: that is the sample's own error.

        Raises:
            KinkError: the model is not smooth.
        """
        if not any(method.needs_slopes for method in self.settings.claims or ()):
            return
        try:
            for attribution in self.attributions.values():
                attribution.check(self.place(x[:1]), smooth=True)
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
            remedy="set smooth (--smooth auto): the audit then bounds a smooth copy, attacks "
            "both, and says of which network each number speaks; or make claims that need no "
            "slopes only (--claim smoothed)",
        )


def top(settings: AuditSettings, scores: int) -> int:
    """The k of top-k in maps of that many scores, from settings that may leave it out."""
    return min(settings.k or usual_k(scores), scores)
