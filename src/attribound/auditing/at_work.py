"""What a batch is at: told while it is measured, through a channel that nothing depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from attribound.auditing.settings import AuditSettings


@dataclass(frozen=True)
class AtWork:
    """The step of a batch that is being worked on: numbers and a text, cheap to send.

    Attributes:
        batch: its number.
        step: from 1; 0 if nothing is known but that somebody has the batch.
        steps: how many there are; more if a part of the batch fails and is halved.
        doing: attribution, ball, and claim or attack.
    """

    batch: int
    step: int = 0
    steps: int = 0
    doing: str = ""

    def __str__(self) -> str:
        if not self.step:
            return f"batch {self.batch}"
        return f"batch {self.batch}, step {self.step} of {self.steps}: {self.doing}"


#: Told of every step as it begins.
Listener = Callable[[AtWork], None]
#: Told in words what is done next.
Say = Callable[[str], None]


def nobody(step: AtWork) -> None:
    """Listen to nothing."""


def silent(doing: str) -> None:
    """Say nothing."""


_listener: ContextVar[Listener] = ContextVar("_listener", default=nobody)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Steps of batches measured inside are told to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def listener() -> Listener:
    """Who listens to steps here."""
    return _listener.get()


class Steps:
    """Counts the steps of a batch and tells of each to who listens."""

    def __init__(self, batch: int, steps: int) -> None:
        self._batch, self._step, self._steps = batch, 0, steps

    def expect(self, more: int) -> None:
        """There are more than was thought."""
        self._steps += more

    def next(self, doing: str) -> None:
        """Begin the next one."""
        self._step += 1
        self._steps = max(self._steps, self._step)
        with suppress(OSError):  # nobody is there any more: no reason to fail
            _listener.get()(AtWork(self._batch, self._step, self._steps, doing))


def expected(settings: AuditSettings) -> int:
    """How many steps a batch has for each attribution."""
    copied = settings.smooth is not None
    attacks = [*settings.made_attacks.values()]
    attacks += settings.made_own_attacks.values() if copied else ()
    made = sum(attack.applies(ball) for attack in attacks for ball in settings.balls)
    transferred = len(settings.balls) if copied and settings.made_attacks else 0
    claims = settings.claims or ()
    averaged = any(method.opponent() is not None for method in claims) * len(settings.balls)
    listed = 0 if settings.keep is None else len(claims) * len(settings.balls)
    return len(claims) * (1 + len(settings.balls)) + made + transferred + averaged + listed
