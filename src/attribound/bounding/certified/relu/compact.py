"""A ReLU network around a point, over the neurons that may switch there and no others.

Of a neuron j let z be its computed preactivation at the point, J and M the derivatives of it by
the input and by the value after neuron k, u the derivative of the logit by the value after j, and
s = +1 where it is off, -1 where it is on: the direction to its kink. At every point x + delta of
the region, *exactly*,

    z'_j = z_j + J_j delta + sum_k M_jk r_k + eta_j,   r_k = max(s_k z'_k, 0),   |eta| <= noise
    u'_j = u_j + sum_k M_kj w_k + (|.| <= adjoint_noise),   w_k = s_k u'_k if k switched, else 0
    g'   = g + shift + sum_k J_k w_k + (norm <= gradient_noise)

because ReLU(z') is the value that the mask at the point gives, plus r: what the other neurons
do is linear. A switch is r > 0. Fixing a neuron to be switched turns r_k into s_k z'_k, which is
linear again: a rank-one update, and no pass through the network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, UNIT, up
from attribound.bounding.certified.relu.region import Region

#: What is known of a neuron: nothing, that it switched, that it did not, and that it can't.
FREE, SWITCHED, KEPT, STABLE = 0, 1, 2, 3
_UPDATE = 16 * UNIT  # roundings of one update


@dataclass(frozen=True, eq=False)
class Compact:
    """Neurons in the order of their layers; see the module for the letters.

    Attributes:
        layer: of each neuron, ``(n,)``.
        state: FREE, SWITCHED, KEPT or STABLE, ``(n,)``.
        z, s, u: ``(n,)``; of a leaky ReLU u and the columns of M are times 1 - its slope.
        jacobian: J, ``(n, d)``; ``matrix``: M, ``(n, n)``.
        noise, adjoint_noise: ``(n,)``; shift: ``(d,)``.
        most: the largest r of each neuron, ``(n,)``, and ``u_low``, ``u_high`` the ends of u':
            they speak of the network, and so hold wherever less is known, too.
    """

    layer: Tensor
    state: Tensor
    z: Tensor
    s: Tensor
    u: Tensor
    jacobian: Tensor
    matrix: Tensor
    noise: Tensor
    adjoint_noise: Tensor
    shift: Tensor
    gradient_noise: float
    most: Tensor
    u_low: Tensor
    u_high: Tensor

    def __len__(self) -> int:
        return len(self.z)

    def layers(self, which: Tensor | None = None) -> list[int]:
        """The layers that have neurons, or some of them, in order."""
        own = self.layer if which is None else self.layer[which]
        return sorted(set(own.tolist()))

    @property
    def free(self) -> Tensor:
        """Neurons of which nothing is known, ``(n,)``."""
        return self.state == FREE

    def only(self, kept: Tensor) -> Compact:
        """Without the neurons that are not ``kept``, which must not be free."""
        rows = kept.nonzero().flatten()
        return replace(
            self,
            layer=self.layer[rows],
            state=self.state[rows],
            z=self.z[rows],
            s=self.s[rows],
            u=self.u[rows],
            jacobian=self.jacobian[rows],
            matrix=self.matrix[rows][:, rows],
            noise=self.noise[rows],
            adjoint_noise=self.adjoint_noise[rows],
            most=self.most[rows],
            u_low=self.u_low[rows],
            u_high=self.u_high[rows],
        )

    def marked(self, neurons: Tensor, state: int) -> Compact:
        """With neurons that did not switch: their r and w are zero."""
        known = self.state.clone()
        known[neurons] = state
        return replace(self, state=known)

    def kept(self, neuron: int) -> Compact:
        """Where ``neuron`` has not switched."""
        return self.marked(torch.tensor([neuron]), KEPT)

    def switched(self, neuron: int, region: Region) -> Compact:
        """Where ``neuron`` has switched."""
        s, own, row = self.s[neuron], self.jacobian[neuron], self.matrix[neuron]
        column = self.matrix[:, neuron] * s
        far, back = column.abs(), row.abs()
        known = self.state.clone()
        known[neuron] = SWITCHED
        # Sums are rounded; their terms are at most so large, wherever delta and the r, w are.
        each = self.z.abs() + region.size(self.jacobian) + self.matrix.abs() @ self.most
        noise = self.noise + far * self.noise[neuron] + _UPDATE * (each + far * each[neuron])
        steep = self.matrix.abs().T @ self.steepest + self.u.abs()
        adjoint_noise = self.adjoint_noise + back * self.adjoint_noise[neuron]
        adjoint_noise = adjoint_noise + _UPDATE * (steep + back * steep[neuron])
        change = own * (s * self.u[neuron])
        lengths = self.jacobian.norm(dim=1)
        rounding = ((lengths + far * lengths[neuron]) * self.steepest).sum() + change.norm()
        noisy = lengths[neuron] * self.adjoint_noise[neuron]
        noisy = noisy + _UPDATE * (rounding + self.shift.norm())
        return replace(
            self,
            state=known,
            z=self.z + column * self.z[neuron],
            u=self.u + s * row * self.u[neuron],
            jacobian=self.jacobian + torch.outer(column, own),
            matrix=self.matrix + torch.outer(column, row),
            noise=up(noise),
            adjoint_noise=up(adjoint_noise),
            shift=self.shift + change,
            gradient_noise=(self.gradient_noise + noisy.item()) * (1 + SLACK),
        )

    @property
    def steepest(self) -> Tensor:
        """The most that the size of each u' can be, ``(n,)``."""
        return torch.maximum(self.u_high, -self.u_low)

    def moves(self, deltas: Tensor) -> Tensor:
        """How g moves at perturbations ``(n, d)``, rounding aside: no pass through a network."""
        free = self if bool(self.free.all()) else self.only(self.free)
        rows = [(free.layer == layer).nonzero().flatten() for layer in free.layers()]
        z = free.z + deltas @ free.jacobian.T
        r, w = torch.zeros_like(z), torch.zeros_like(z)
        for own in rows:
            z[:, own] += r @ free.matrix[own].T
            r[:, own] = (free.s[own] * z[:, own]).clamp_min(0)
        for own in reversed(rows):
            u = free.u[own] + w @ free.matrix[:, own]
            w[:, own] = torch.where(r[:, own] > 0, free.s[own] * u, 0.0)
        return self.shift + w @ free.jacobian
