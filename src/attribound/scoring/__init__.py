"""What a trained model is worth: accuracy, accuracy under attack, how alike attributions stay."""

from attribound.scoring.accuracy import attacked_accuracy, beginning_with, clean_accuracy
from attribound.scoring.modes import eval_mode
from attribound.scoring.similarity import Similarity, attribution_similarity
from attribound.scoring.statistics import Mean, Share

__all__ = [
    "Mean",
    "Share",
    "Similarity",
    "attacked_accuracy",
    "attribution_similarity",
    "beginning_with",
    "clean_accuracy",
    "eval_mode",
]
