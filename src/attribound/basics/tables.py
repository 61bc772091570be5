"""Plain-text tables for the ``repr`` of results."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from attribound.basics.later import Later
from attribound.basics.terminal import printable

if TYPE_CHECKING:
    from rich import box, console, table, text
    from torch import Tensor
else:
    box, console, table, text = map(Later, ("rich.box", "rich.console", "rich.table", "rich.text"))

_ROWS_SHOWN = 20


def render(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A titled table as text; numbers to four digits, at most twenty rows."""
    shown = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        shown.add_column(text.Text(name), justify="right", no_wrap=True)
    for row in rows[:_ROWS_SHOWN]:
        shown.add_row(*[text.Text(cell(value)) for value in row])
    out = StringIO()
    console.Console(file=out, width=400, color_system=None, force_jupyter=False).print(shown)
    lines = [title, *[line.rstrip() for line in out.getvalue().splitlines() if line.strip()]]
    if len(rows) > _ROWS_SHOWN:
        lines.append(f"... and {len(rows) - _ROWS_SHOWN} more")
    return printable("\n".join(lines))


def cell(value: object) -> str:
    """A number to four significant digits, anything else as it prints."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def columns(*tensors: Tensor) -> list[Sequence[object]]:
    """Tensors of one value per example as lists of Python numbers."""
    return [tensor.detach().cpu().tolist() for tensor in tensors]
