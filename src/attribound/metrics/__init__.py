"""How alike attributions are, and what a network is worth: accuracies, similarity under attack."""

from attribound.metrics.accuracy import attacked_accuracy, beginning_with, clean_accuracy
from attribound.metrics.comparing import (
    compare,
    cosine,
    degrees,
    euclidean,
    kendall,
    maps,
    pearson,
    spearman,
    top_k_intersection,
)
from attribound.metrics.similarity import Similarity, attribution_similarity
from attribound.metrics.statistics import Mean, Share

__all__ = [
    "Mean",
    "Share",
    "Similarity",
    "attacked_accuracy",
    "attribution_similarity",
    "beginning_with",
    "clean_accuracy",
    "compare",
    "cosine",
    "degrees",
    "euclidean",
    "kendall",
    "maps",
    "pearson",
    "spearman",
    "top_k_intersection",
]
