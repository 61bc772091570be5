"""What an audit looks at: a model, its attributions, and what they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attribound.attacks import Attack, usual_k
from attribound.attributions import Attribution, Classifier
from attribound.auditing.settings import AuditSettings, usual_attacks
from attribound.auditing.sources import load_model
from attribound.auditing.tables import scaled
from attribound.balls import Ball
from attribound.basics.errors import InputError, KinkError
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
        _check_device(settings.device)
        model = scaled(settings.table, model).to(settings.device, settings.torch_dtype).eval()
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

        Nothing is refused where no claim needs slopes, but attacks that were chosen to climb
        some. A model that fails on ``x`` for other reasons passes: that is the sample's own error.

        Raises:
            KinkError: the model is not smooth.
        """
        if not self._climbs:
            return
        try:
            for attribution in self.attributions.values():
                attribution.check(self.place(x[:1]), smooth=True)
        except KinkError as error:
            raise self.kinked(error) from error
        except Exception:  # the sample's own fault, recorded when it is measured
            return

    @property
    def _climbs(self) -> bool:
        """Whether slopes are needed, by a claim or by an attack that was chosen."""
        settings = self.settings
        attacks = settings.attacks or {}
        chosen = attacks != usual_attacks(settings)
        climbing = chosen and any(each.needs_slopes for each in attacks.values())
        return climbing or any(method.needs_smooth for method in settings.claims or ())

    def attacks(self, name: str, x: Tensor, ball: Ball) -> dict[str, Attack]:
        """What is made on the attribution of that name in this ball.

        On a network with kinks itself, of which certificates speak: what climbs no slopes.
        """
        made = self.settings.made_attacks
        if not self._has_slopes(self.attributions[name], x):
            made = {each: attack for each, attack in made.items() if not attack.needs_slopes}
            made |= self.settings.made_own_attacks
        return {each: attack for each, attack in made.items() if attack.applies(ball)}

    def _has_slopes(self, attribution: Attribution, x: Tensor) -> bool:
        if attribution.crosses_kinks or not self.settings.own_attacks:
            return True  # else the audit was refused
        try:
            attribution.check(x[:1], smooth=True)
        except KinkError:
            return False
        return True

    def refuse_keep(self, x: Tensor) -> None:
        """Refuse lists of as many reasons as there are scores, or more, before all is computed.

        Raises:
            InputError: the setting ``keep`` is too large for an attribution.
        """
        if self.settings.keep is None:
            return
        for name, attribution in self.attributions.items():
            try:
                scores = attribution(self.place(x[:1]))[0].numel()
            except Exception:  # noqa: S112 - the sample's own fault
                continue
            if self.settings.keep >= scores:
                raise InputError(
                    "keep",
                    expected=f"fewer reasons than the {scores} scores of {name}",
                    got=repr(self.settings.keep),
                    remedy="credit notices give at most 4; leave it out for none",
                )

    def kinked(self, error: KinkError) -> KinkError:
        """``error`` with what to do about it in an audit."""
        if self.settings.smooth is not None:
            return error
        got = str(error).rpartition(";")[0]  # without the remedy outside of audits
        if not self._climbs:
            return KinkError(
                f"attacks on {self.name}",
                expected="a network of which smooth copies can be climbed",
                got=got,
                remedy="choose attacks that need none, "
                '--set own_attacks={"kinks": "kink_steps", "noise": "random"}',
            )
        return KinkError(
            f"model {self.name}",
            expected="a smooth network, or the setting smooth",
            got=got,
            remedy="set smooth (--smooth auto): the audit then bounds a smooth copy, attacks "
            "both, and says of which network each number speaks; or make claims about the network "
            "itself only (--claim certified, --claim smoothed), with attacks that climb no slopes",
        )


def top(settings: AuditSettings, scores: int) -> int:
    """The k of top-k in maps of that many scores, from settings that may leave it out."""
    return min(settings.k or usual_k(scores), scores)


def _check_device(name: str) -> None:
    """Refuse a device that is none, or not there."""
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            "device",
            expected="one that this machine has, e.g. cpu or cuda",
            got=f"{name!r}, {str(error).splitlines()[0][:80]}",
            remedy="leave it out for cpu",
        ) from error
