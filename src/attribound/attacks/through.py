"""Attack one attribution through another: climb where there are slopes, judge what counts."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from attribound.attacks.attack import Attack
from attribound.attacks.judging import furthest, judge_all
from attribound.attributions import Attribution, Classifier
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.networks.inputs import Target
from attribound.networks.smooth import smooth
from attribound.networks.subject import original_of, unmark
from attribound.results import Attacked
from attribound.values import NO_SETTING, register

#: Sharpness of a copy, and what its user chose for the network: memory and structure.
_Chosen = tuple[float, int, bool]
#: Smooth copies that share the weights of their originals.
_copies: weakref.WeakKeyDictionary[nn.Module, dict[_Chosen, Classifier]] = (
    weakref.WeakKeyDictionary()
)


@register("through")
@dataclass(frozen=True)
class Through(Attack):
    """An attack that climbs surrogates of an attribution and is judged on the attribution itself.

    A ReLU network has no slopes of its own to climb; its smooth copies have. An integral by
    many nodes is dear; one by few leads nearly the same way.

    Attributes:
        attack: climbs each surrogate.
        betas: sharpness of smooth copies of the network.
        recipe: an attribution in place of the one in question, e.g. of fewer steps.
        surrogate: any other attribution, of any model.
    """

    attack: Attack
    betas: tuple[float, ...] = ()
    recipe: Attribution | None = None
    surrogate: Attribution | None = field(default=None, compare=False, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        """Refuse a surrogate that is none."""
        if not self.betas and self.recipe is None and self.surrogate is None:
            raise InputError(
                "through",
                expected="a surrogate: betas of smooth copies, a recipe or an attribution",
                got="none",
                remedy="e.g. AttributionAscent().through(20, 100)",
            )

    def seeded(self, seed: int) -> Attack:
        """The same with ``seed`` added to the attack's."""
        return replace(self, attack=self.attack.seeded(seed))

    def applies(self, ball: Ball) -> bool:
        """Where the attack is made."""
        return self.attack.applies(ball)

    def surrogates(self, attribution: Attribution) -> Iterator[Attribution]:
        """What is climbed for ``attribution``."""
        if self.surrogate is not None:
            yield self.surrogate
        recipe = attribution.climbed() if self.recipe is None else self.recipe
        classifier = attribution.classifier
        if classifier is None:
            if self.betas or self.recipe is not None:
                raise InputError(
                    f"attribution {attribution.name}",
                    expected="one that knows its network, which is copied or explained otherwise",
                    got="one that does not",
                    remedy="pass FunctionAttribution(fn, model=...)",
                )
        elif self.betas:
            for beta in self.betas:
                yield recipe.of(_copy(classifier, beta))
        elif self.recipe is not None:
            yield recipe.of(classifier)

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Climb every surrogate, judge every trial."""
        x, labels = self.checked(attribution, x, ball, target)
        judged: list[Attacked] = []
        for surrogate in self.surrogates(attribution):
            found = self.attack(surrogate, x, ball, labels)
            trials = found.trials or (found,)
            judged += judge_all(
                attribution,
                x,
                [each.delta for each in trials],
                labels,
                [each.evaluations for each in trials],
            )
        return judged[0] if len(judged) == 1 else furthest(judged)


def _copy(classifier: Classifier, beta: float) -> Classifier:
    """A smooth copy with the network's own weights and settings, kept as long as the network."""
    model = classifier.model
    if not isinstance(model, nn.Module):
        raise InputError(
            "model",
            expected="a torch.nn.Module, of which smooth copies can be made",
            got=type(model).__name__,
            remedy="wrap the function in a module, or attack through a surrogate of your own",
        )
    original = original_of(model)
    known = _copies.setdefault(original, {})
    limit, structured = classifier.memory_limit, classifier.structured
    chosen = beta, limit, structured
    if chosen not in known:
        copy = smooth(original, beta, share_weights=True)
        unmark(copy)  # the key must not be kept by its value
        known[chosen] = Classifier(copy, memory_limit=limit, structured=structured)
    return known[chosen]
