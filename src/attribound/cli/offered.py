"""What help texts offer, as texts: the classes behind them need torch, which help does without.

A test compares them with the registries.
"""

from __future__ import annotations

ATTRIBUTIONS = (
    "absolute",
    "averaged",
    "captum",
    "expected_gradients",
    "function",
    "grad_cam",
    "grouped",
    "ig",
    "input_x_gradient",
    "saliency",
    "smooth_grad",
)
CLAIMS = ("first_order", "adjusted", "calibrated", "mean_value", "smoothed", "certified")
PROTOCOLS = ("paper", "quick", "strong")
#: Columns that the leaderboard can be sorted by.
SORTS = ("kendall", "top_k", "pearson", "cosine", "clean", "attacked", "name")


def listed(names: tuple[str, ...]) -> str:
    """The names with commas between them."""
    return ", ".join(names)
