"""What a person sees of a run: tables, one page, figures, files for other tools, comparisons."""

from attribound.report.answers import Answers, answers, one_line
from attribound.report.compare_page import write_comparison
from attribound.report.comparison import Comparison, RunDifference, compare
from attribound.report.console import console
from attribound.report.exports import FORMATS, escape_latex, export
from attribound.report.figures import figures
from attribound.report.groups import Group, groups
from attribound.report.page import write_html
from attribound.report.run_board import run_tables
from attribound.report.summary_table import SummaryTable, angle, number, summary_table

__all__ = [
    "FORMATS",
    "Answers",
    "Comparison",
    "Group",
    "RunDifference",
    "SummaryTable",
    "angle",
    "answers",
    "compare",
    "console",
    "escape_latex",
    "export",
    "figures",
    "groups",
    "number",
    "one_line",
    "run_tables",
    "summary_table",
    "write_comparison",
    "write_html",
]
