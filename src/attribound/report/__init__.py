"""What a person sees of a run: tables, one page, figures, files for other tools, comparisons."""

from attribound.report.comparison import Comparison, Difference, compare
from attribound.report.console import console
from attribound.report.exports import FORMATS, export
from attribound.report.figures import figures
from attribound.report.page import write_html

__all__ = [
    "FORMATS",
    "Comparison",
    "Difference",
    "compare",
    "console",
    "export",
    "figures",
    "write_html",
]
