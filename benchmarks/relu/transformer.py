"""A small transformer on Fashion-MNIST: sixteen patches, two layers, GELU and layer norms.

``python benchmarks/relu/transformer.py`` trains it again (minutes on one core) and puts it into
``benchmarks/checkpoints/fashion.safetensors``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, too

import fashion

NAME = "transformer"
_PATCH, _WIDTH, _STEPS, _BATCH = 7, 32, 600, 128


class Transformer(nn.Module):
    """Patches of 7 x 7 pixels, attention among them, the mean of all for the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, _WIDTH, _PATCH, stride=_PATCH)
        self.place = nn.Parameter(0.02 * torch.randn(1, 16, _WIDTH))
        layer = nn.TransformerEncoderLayer(
            _WIDTH, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        tokens = self.embed(x).flatten(2).transpose(1, 2) + self.place
        out: Tensor = self.head(self.layers(tokens).mean(1))
        return out


def load() -> nn.Module:
    """As it was trained."""
    network = Transformer()
    network.load_state_dict(fashion.weights(NAME))
    return network.eval()


def train() -> None:
    """Adam on cross-entropy, a fixed seed."""
    torch.manual_seed(0)
    x, y = fashion.images("train")
    network = Transformer().train()
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    for step in range(_STEPS):
        rows = torch.randint(len(x), (_BATCH,))
        loss = nn.functional.cross_entropy(network(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 100 == 0:
            print(step, loss.item(), flush=True)
    fashion.store(NAME, network.state_dict())
    test_x, test_y = fashion.images("t10k")
    with torch.no_grad():
        hits = network.eval()(test_x).argmax(1) == test_y
    print(f"test accuracy {hits.double().mean().item():.3f}")


if __name__ == "__main__":
    train()
