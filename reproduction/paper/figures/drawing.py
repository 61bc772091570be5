"""How every figure of the paper looks, and how it becomes a PNG and a PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from attribound.basics import package, store_whole, storing
from reproduction.paper.items import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")

KINDS = ("png", "pdf")
#: Inches: a column of the paper, and both.
COLUMN, PAGE = 3.4, 7.0
GREY, BLUE, RED, GREEN = "#666666", "#0072b2", "#d55e00", "#009e73"
#: Colour and marker of the paper's models. The colours (Okabe and Ito) differ for colour-blind
#: readers, the markers in black and white.
LOOKS: dict[str, tuple[str, str]] = {
    "ce": ("#000000", "X"),
    "at": ("#e69f00", "o"),
    "ig-norm": ("#56b4e9", "s"),
    "advaat": ("#009e73", "^"),
    "art": ("#cc79a7", "D"),
    "trades": ("#0072b2", "v"),
    "trades-igr": ("#d55e00", "P"),
}
_PURPOSE = "figures"
_ENTRY = 1.6  # inches of an entry of a legend
_LETTERS = 19  # an inch of a note has
_LINE = 0.14  # inches of its lines, and those of a legend
_NARROWEST = 4.5  # inches a figure has for its legend and notes
_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "pdf.fonttype": 42,  # whole outlines, which journals ask for; type 3 is refused by some
    "savefig.dpi": 200,
}


def title_of(model: str) -> str:
    """What the paper calls a model of the plan; ``ce-full`` is ``CE (full)``."""
    stem = _method(model)
    if stem is None:
        return plain(model)
    rest = plain(model[len(stem) + 1 :])
    return f"{METHODS[stem]} ({rest})" if rest else METHODS[stem]


def look_of(model: str) -> dict[str, Any]:
    """Colour and marker of a model, the same in every figure; variants have stars."""
    colour, marker = LOOKS.get(_method(model) or "", (GREY, "*"))
    return {"color": colour, "marker": marker if model in LOOKS else "*"}


def _method(model: str) -> str | None:
    """The training method in the name of a model: the longest that fits."""
    fits = [name for name in METHODS if model == name or model.startswith(f"{name}-")]
    return max(fits, key=len) if fits else None


def plain(text: str) -> str:
    """Text that is not read as a formula."""
    return text.replace("$", r"\$")


@contextmanager
def style() -> Iterator[None]:
    """While active, figures look like those of the paper, whatever the user's own settings."""
    library = package("matplotlib.style", extra="audit", purpose=_PURPOSE)
    with library.context(["default", _SETTINGS]):
        yield


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """A function that draws in :func:`style`."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> R:
        with style():
            return draw(*args, **options)

    return drawn


def blank(width: float, height: float) -> Figure:
    """A figure of that many inches whose parts do not overlap."""
    figures = package("matplotlib.figure", extra="audit", purpose=_PURPOSE)
    figure: Figure = figures.Figure(figsize=(width, height), layout="constrained")
    return figure


def panels(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` axes in rows of ``columns``, each of that size in inches."""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure = blank(max(columns * size[0], _NARROWEST), rows * size[1])
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, list(axes[:count])


def legend(figure: Figure, title: str, axes: Sequence[Axes]) -> None:
    """Above the panels, which keep their size, the title and everything that any of them shows."""
    entries: dict[Any, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        entries = {**dict(zip(labels, handles, strict=True)), **entries}
    columns = max(1, min(len(entries), int(figure.get_figwidth() / _ENTRY)))
    rows = 1 + -(-len(entries) // columns)
    figure.set_figheight(figure.get_figheight() + _LINE * rows)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper center",
        ncols=columns,
        title=title,
        title_fontsize=9,
    )


def note(figure: Figure, *texts: str) -> None:
    """Write what a reader must know below the figure, which grows; empty texts are left out."""
    most = int(_LETTERS * figure.get_figwidth())
    lines = [line for text in texts for part in text.split("\n") for line in wrap(part, most)]
    if lines:
        figure.set_figheight(figure.get_figheight() + _LINE * len(lines))
        figure.supxlabel("\n".join(lines), fontsize=7, color=GREY, x=0.01, ha="left")


def left_out(missing: Mapping[str, str]) -> str:
    """The note on models that are not there, by the reason; empty if all are."""
    by_reason: dict[str, list[str]] = {}
    for model, reason in missing.items():
        by_reason.setdefault(reason, []).append(title_of(model))
    parts = [f"{', '.join(names)} ({plain(reason)})" for reason, names in by_reason.items()]
    return f"Left out: {'; '.join(parts)}" if parts else ""


def nothing(why: str) -> Figure:
    """A figure that says why there is nothing to see."""
    with style():
        lines = wrap(why, int(_LETTERS * PAGE))
        figure = blank(PAGE, 0.6 + 0.15 * len(lines))
        figure.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", color=GREY)
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.pdf`` to ``folder``; the same figure gives the same bytes.

    Raises:
        StorageError: the system refused to write.
    """
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in KINDS:
        path = folder / f"{name}.{kind}"
        store_whole(path, _bytes(figure, kind))
        written.append(path)
    return written


def _bytes(figure: Figure, kind: str) -> bytes:
    out = BytesIO()
    undated: dict[str, Any] = {"CreationDate": None} if kind == "pdf" else {}
    with style():
        figure.savefig(out, format=kind, metadata=undated)
    return out.getvalue()
