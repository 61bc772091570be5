"""What a person sees of a run: tables, one page, figures, files for other tools, comparisons."""

from attribound.report.comparison import Comparison, RunDifference, compare
from attribound.report.console import console
from attribound.report.exports import FORMATS, escape_latex, export
from attribound.report.figures import figures
from attribound.report.groups import Group, groups
from attribound.report.page import write_html
from attribound.report.summary_table import SummaryTable, angle, number, summary_table

__all__ = [
    "FORMATS",
    "Comparison",
    "Group",
    "RunDifference",
    "SummaryTable",
    "angle",
    "compare",
    "console",
    "escape_latex",
    "export",
    "figures",
    "groups",
    "number",
    "summary_table",
    "write_html",
]
