"""Everything the rows of an audit depend on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from attribound.attacks import Attack
from attribound.attacks.displace import By
from attribound.attributions import Attribution, IntegratedGradients
from attribound.auditing.protocols import Protocol, Quick
from attribound.auditing.tables import TableSettings
from attribound.balls import Ball, L2Ball
from attribound.basics.errors import InputError
from attribound.bounding.guarantees import check_methods, method_of
from attribound.bounding.method import Method
from attribound.results import Claim
from attribound.results import claims as all_claims
from attribound.values import Record, from_spec, name_of, to_spec
from attribound.values.parsing import parse_text

#: Names of attacks that audits make by themselves.
TRANSFERRED, ON_AVERAGED = "transferred", "averaged"
#: Came after rows were stored under all settings: left out of documents where they are None.
_LATER = ("size", "keep", "keep_by", "called")
_ATTACK_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, eq=False)
class AuditSettings(Record):
    """An audit: model, data, what is bounded, what attacks it, and how much of each.

    What is None is filled in by :func:`complete` from the protocol; rows belong to the
    complete settings.

    Attributes:
        model: where it comes from, e.g. ``zoo:fashion-mnist/at`` or ``module:factory``.
        data: name or path.
        weights: file for the model.
        split: ``train`` or ``test``.
        size: scale and crop images from files to this many pixels.
        limit: at most so many examples, chosen at random.
        skip: leave out as many as an audit with that limit takes, e.g. to calibrate on others.
        seed: of the choice of examples and of the attacks.
        smooth: beta of the smooth copy that stands for a network with kinks (ReLU); ``auto``
            for the smallest at which the copy explains nearly as the network does.
        attributions: what is explained; names are unique.
        balls: where.
        claims: which bounds, and with which effort; see :func:`read_settings` for texts.
        methods: efforts in place of those that the protocol has for its claims; claims that
            it has not are made, too.
        attacks: by name (letters and digits); ``{}`` for none.
        own_attacks: those on a network with kinks itself: with ``smooth`` beside all that was
            found on the copy, without it (certificates alone) beside ``attacks`` that climb no
            slopes.
        keep: a number of reasons: which of so many largest scores stay is said under every claim,
            beside what attacks aimed at them leave; None for nothing of that.
        keep_by: how these are ranked, ``value`` (default) or ``absolute``.
        called: what samples are called in sentences about reasons, e.g. ``applicants``.
        k: for top-k; None: 100, or 1000 above 1024 scores, but at most a third of them.
        batch: examples computed together and stored as one part.
        maps: of which examples inputs and maps are kept for a gallery.
        dtype, device: of the computation.
        protocol: where everything left out comes from.
        value_range: of cubes (linf) without low and high: ``data`` for 0 to 1 if the data are
            images, ``none`` for no limit. Only there do bounds use a range: in other balls they
            speak of the whole ball, and so do the attacks unless low and high are given.
        table: of data with named columns: what they are, and the units of perturbations.
    """

    model: str
    data: str
    weights: str | None = None
    split: Literal["train", "test"] | None = None
    size: int | None = None
    limit: int | None = None
    skip: int = 0
    seed: int = 0
    smooth: float | Literal["auto"] | None = None
    attributions: tuple[Attribution, ...] = (IntegratedGradients(),)
    balls: tuple[Ball, ...] = (L2Ball(0.1),)
    claims: tuple[Method, ...] | None = None
    methods: tuple[Method, ...] = ()
    attacks: dict[str, Attack] | None = None
    own_attacks: dict[str, Attack] | None = None
    keep: int | None = None
    keep_by: By | None = None
    called: str | None = None
    k: int | None = None
    batch: int = 16
    maps: Literal["all", "some", "none"] = "some"
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    protocol: Protocol = field(default_factory=Quick)
    value_range: Literal["data", "none"] | None = None
    table: TableSettings = field(default_factory=TableSettings)

    def __post_init__(self) -> None:
        """Refuse settings that contradict themselves."""
        _check("size", self.size, self.size is None or self.size >= 1, "1 or more", "or none")
        _check("limit", self.limit, self.limit is None or self.limit >= 1, "1 or more", "or none")
        _check("skip", self.skip, self.skip >= 0, "0 or more", "use the limit of another audit")
        _check("batch", self.batch, self.batch >= 1, "1 or more", "use e.g. 16")
        _check("k", self.k, self.k is None or self.k >= 1, "1 or more", "or leave it out")
        _check("keep", self.keep, self.keep is None or self.keep >= 1, "1 or more", "use e.g. 4")
        _check("seed", self.seed, self.seed >= 0, "0 or more", "use e.g. 0")
        beta = self.smooth
        fine = beta is None or beta == "auto" or 0 < beta < math.inf
        _check("smooth", beta, fine, "a finite number above 0, or auto", "use auto")
        listed: dict[str, list[object]] = {
            "attributions": [each.name for each in self.attributions],
            "balls": [(ball.name, ball.epsilon) for ball in self.balls],
        }
        for name, values in listed.items():
            _check(name, values, bool(values), "at least one", "leave it out for the default")
            twice = [each for each, count in Counter(values).items() if count > 1]
            _check(name, twice, not twice, "each only once", "give them different labels or radii")
        if self.claims is not None:
            check_methods(self.claims)
        for name in (*(self.attacks or {}), *(self.own_attacks or {})):
            fine = bool(_ATTACK_NAME.fullmatch(name))
            _check("name of an attack", name, fine, "lower-case letters, digits and _", "rename it")
        twice = [name for name in self.own_attacks or {} if name in (self.attacks or {})]
        twice += [
            name
            for name in (*(self.attacks or {}), *(self.own_attacks or {}))
            if name in (TRANSFERRED, ON_AVERAGED)
        ]
        expected = f"each only once, none '{TRANSFERRED}' or '{ON_AVERAGED}'"
        _check("names of attacks", twice, not twice, expected, "rename")

    @property
    def torch_dtype(self) -> torch.dtype:
        """``dtype`` as torch has it."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    @property
    def made_own_attacks(self) -> dict[str, Attack]:
        """The same of the attacks on the network itself."""
        return self._seeded(self.own_attacks)

    @property
    def made_attacks(self) -> dict[str, Attack]:
        """The attacks of complete settings, with the seed of the audit in them."""
        return self._seeded(self.attacks)

    def _seeded(self, attacks: Mapping[str, Attack] | None) -> dict[str, Attack]:
        # Far apart, so that no two seeds of audits meet, nor one those that bounds search with.
        given = (attacks or {}).items()
        return {name: attack.seeded(1_000_003 * self.seed) for name, attack in given}

    def document(self) -> dict[str, Any]:
        """All settings as plain values for JSON; :func:`read_settings` gives them back.

        Those that came later are left out where they say nothing: rows are the same without them,
        and are found under the settings they were stored with.
        """
        plain: dict[str, Any] = to_spec(self, whole=True)
        if self.table == TableSettings():
            del plain["table"]
        return {name: own for name, own in plain.items() if name not in _LATER or own is not None}


def read_settings(document: Mapping[str, Any]) -> AuditSettings:
    """Settings from plain data, texts and values in any mixture, complete.

    What is listed may be one thing alone. ``attributions``, ``balls``, ``claims`` and
    ``attacks`` are values, or texts such as ``"ig:steps=50"``; balls may have several radii
    (``"l2:epsilon=(0.05,0.1)"``); attacks in a list get the names of their kinds. The name of a
    claim as a key has its effort: ``mean_value = {shells = 8}``.

    Raises:
        InputError: names every key that is unknown, missing or has a wrong value.
    """
    mended = dict(document)
    by_claim = {each.name: each for each in all_claims() if each.method is not None}
    efforts = [
        _effort(by_claim[name].method, mended.pop(name)) for name in by_claim & mended.keys()
    ]
    if efforts:
        mended["methods"] = (*_several(mended.get("methods", ())), *efforts)
    for name in ("attributions", "balls", "claims", "methods"):
        if mended.get(name) is not None:
            mended[name] = _several(mended[name])
    if mended.get("balls") is not None:
        mended["balls"] = tuple(ball for each in mended["balls"] for ball in _radii(each))
    for name in ("claims", "methods"):
        if mended.get(name) is not None:
            mended[name] = tuple(_method(each) for each in mended[name])
    for name in ("attacks", "own_attacks"):
        if mended.get(name) is not None and not isinstance(mended[name], Mapping):
            mended[name] = _named(_several(mended[name]))
    return complete(from_spec(mended, AuditSettings))


def complete(settings: AuditSettings) -> AuditSettings:
    """``settings`` with everything they leave open taken from their protocol.

    Complete settings stay as they are.
    """
    protocol = settings.protocol
    chosen = settings.claims
    if chosen is None:
        own_claims = () if settings.smooth is None else protocol.own_claims()
        chosen = (*protocol.claims(), *own_claims)
    by_claim = {method.claim: method for method in (*chosen, *settings.methods)}
    attacks = settings.attacks
    if attacks is None:
        # Claims that need no slopes are made where attacks can't climb any; they bring their own.
        slopes = any(method.needs_slopes for method in by_claim.values())
        attacks = usual_attacks(settings) if slopes else {}
    own = settings.own_attacks
    if own is None:
        # Without a copy, certificates alone can speak of a network with kinks.
        methods = by_claim.values()
        alone = any(each.of_kinked for each in methods) and not any(m.needs_smooth for m in methods)
        kinked = alone or settings.smooth is not None
        own = protocol.own_attacks(settings.balls) if kinked else {}
    return replace(
        settings,
        claims=tuple(by_claim[claim] for claim in sorted(by_claim, key=lambda each: each.order)),
        methods=(),
        attacks=dict(sorted(attacks.items())),
        own_attacks=dict(sorted(own.items())),
        value_range=settings.value_range or protocol.value_range,
    )


def usual_attacks(settings: AuditSettings) -> dict[str, Attack]:
    """What the protocol attacks with where slopes can be climbed."""
    made = settings.protocol.attacks(settings.balls)
    if any(each.crosses_kinks for each in settings.attributions):
        made = {**made, **settings.protocol.crossing_attacks()}
    return made


def _several(value: Any) -> tuple[Any, ...]:
    """What is listed; one thing alone is a list of one."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(value) if listed else (value,)


def _effort(kind: Any, given: Any) -> Any:
    """The method of a claim from a table without a kind, or as it is."""
    if isinstance(given, Mapping) and "kind" not in given:
        return {"kind": name_of(kind), **given}
    return given


def _method(given: Any) -> Any:
    return method_of(given) if isinstance(given, (str, Claim)) else given


def _radii(given: Any) -> Iterator[Any]:
    """One ball for each radius."""
    table = parse_text(given) if isinstance(given, str) else given
    radii = table.get("epsilon") if isinstance(table, Mapping) else None
    if isinstance(radii, (list, tuple)):
        for epsilon in radii:
            yield {**table, "epsilon": epsilon}
    else:
        yield given


def _named(attacks: Sequence[Any]) -> dict[str, Attack]:
    """Attacks by the names of their kinds, numbered where there are several of one."""
    found: dict[str, Attack] = {}
    for each in attacks:
        attack = from_spec(each, Attack)
        kind = re.sub(r"[^a-z0-9]+", "_", name_of(type(attack)).rpartition(":")[2].lower()).strip(
            "_"
        )
        number = 1
        name = kind
        while name in found:
            number += 1
            name = f"{kind}{number}"
        found[name] = attack
    return found


def _check(name: str, value: object, ok: bool, expected: str, remedy: str) -> None:
    """Refuse a setting with a value that makes no sense."""
    if not ok:
        raise InputError(name, expected=expected, got=repr(value), remedy=remedy)
