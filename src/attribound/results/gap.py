"""How much of a certificate may be slack."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.basics.tables import columns, render


@dataclass(frozen=True, eq=False)
class Gap:
    """What is known of the truth below a certificate of a ReLU network, per example.

    Attributes:
        root: the certificate before branching.
        attained: the largest deviation at the perturbations that were looked at on the way.
        neurons: that may switch in the ball.
        nodes: parts of the ball that were bounded.
        exact: the certificate is the largest deviation itself, up to rounding.
    """

    root: Tensor
    attained: Tensor
    neurons: Tensor
    nodes: Tensor
    exact: Tensor

    def __repr__(self) -> str:
        fields = columns(self.root, self.attained, self.neurons, self.nodes, self.exact)
        header = ["root", "attained", "neurons", "nodes", "exact"]
        return render("Gap of a certificate", header, list(zip(*fields, strict=True)))
