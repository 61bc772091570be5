"""``make dist``: what was installed works, from the weights of both distributions to the page."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import attribound as ab


def main() -> None:
    """Bound, attack, audit and write a page, with nothing but what was installed."""
    home = Path(ab.__file__).parent
    print(
        f"attribound {ab.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"
    )
    missing = [name for name in ab.zoo.names() if not ab.zoo.path(name).is_file()]
    print(f"{len(ab.zoo.names())} networks in the zoo, {len(missing)} without weights")
    outside = next(name for name in ab.zoo.names() if home not in ab.zoo.path(name).parents)
    net = ab.zoo.load("fashion-mnist/at-mlp")
    x = ab.data.load("fashion-mnist-sample").read(torch.arange(2))
    ig, ball = ab.IntegratedGradients(net, steps=5), ab.L2Ball(0.05)
    found = ab.attacks.AttributionAscent(steps=5)(ig, x, ball)
    bound = ab.bound(ig, x, ball, claim="mean_value")
    held = bool((found.deviation <= bound.euclidean).all())
    print(f"weights of {outside}: {sum(p.numel() for p in ab.zoo.load(outside).parameters()):,}")
    print(f"attacks within the mean-value bound: {held}")
    with tempfile.TemporaryDirectory() as folder:
        run = ab.audit(
            "zoo:fashion-mnist/at-mlp",
            "fashion-mnist-sample",
            out=Path(folder) / "run",
            limit=2,
            claims=["first_order"],
            attributions=["saliency"],
        )
        page = ab.write_html(run)
        print(f"page of {page.stat().st_size:,} bytes")
        ok = held and not missing and page.stat().st_size > 10_000
    if not ok:
        raise SystemExit("smoke test failed")


if __name__ == "__main__":
    main()
