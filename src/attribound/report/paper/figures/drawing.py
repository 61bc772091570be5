"""How every figure of the paper looks, and how it becomes a PNG and a PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from attribound.data.packages import package
from attribound.evaluation.atomic import storing, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")

KINDS = ("png", "pdf")
#: Inches: a column of the paper, and both.
COLUMN, PAGE = 3.4, 7.0
GREY, BLUE, RED, GREEN = "#666666", "#0072b2", "#d55e00", "#009e73"
#: The paper's models: title, colour and marker. The colours (Okabe and Ito) differ for
#: colour-blind readers, the markers in black and white.
LOOKS: dict[str, tuple[str, str, str]] = {
    "ce": ("CE", "#000000", "X"),
    "at": ("AT", "#e69f00", "o"),
    "ig-norm": ("IG-NORM", "#56b4e9", "s"),
    "advaat": ("AdvAAT", "#009e73", "^"),
    "art": ("ART", "#cc79a7", "D"),
    "trades": ("TRADES", "#0072b2", "v"),
    "trades-igr": ("TRADES+IGR", "#d55e00", "P"),
}
_PURPOSE = "figures"
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
    """What the paper calls a model; ``at-resnet18`` is ``AT (resnet18)``."""
    stem = _stem(model)
    if stem is None:
        return plain(model)
    rest = plain(model[len(stem) + 1 :])
    return f"{LOOKS[stem][0]} ({rest})" if rest else LOOKS[stem][0]


def look_of(model: str) -> dict[str, str]:
    """Colour and marker of a model, the same in every figure."""
    _, colour, marker = LOOKS.get(_stem(model) or "", ("", GREY, "*"))
    return {"color": colour, "marker": marker}


def ordered(models: Mapping[str, R]) -> list[tuple[str, R]]:
    """Models in the order of the paper's tables, others after them by name."""
    order = list(LOOKS)

    def place(name: str) -> tuple[int, str]:
        stem = _stem(name)
        return (order.index(stem) if stem else len(order), name)

    return sorted(models.items(), key=lambda item: place(item[0]))


def _stem(model: str) -> str | None:
    """The training method in the name of a model, ours or the paper's: the longest that fits."""
    slug = model.lower().replace("+", "-")
    fits = [name for name in LOOKS if slug == name or slug.startswith(f"{name}-")]
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
    figure = blank(columns * size[0], rows * size[1])
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, list(axes[:count])


def note(figure: Figure, *texts: str) -> None:
    """Write what a reader must know below the figure; empty texts are left out."""
    lines = [text for text in texts if text]
    if lines:
        figure.supxlabel("\n".join(lines), fontsize=7, color=GREY, x=0.01, ha="left")


def left_out(missing: Sequence[str]) -> str:
    """The note on models that are not there; empty if all are."""
    names = ", ".join(map(title_of, missing))
    return f"Left out, not there yet (make zoo): {names}" if names else ""


def nothing(why: str) -> Figure:
    """A figure that says why there is nothing to see."""
    with style():
        figure = blank(PAGE, 0.8)
        figure.text(0.5, 0.5, plain(why), ha="center", va="center", color=GREY)
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
        write_whole(path, _bytes(figure, kind))
        written.append(path)
    return written


def _bytes(figure: Figure, kind: str) -> bytes:
    out = BytesIO()
    undated: dict[str, Any] = {"CreationDate": None} if kind == "pdf" else {}
    with style():
        figure.savefig(out, format=kind, metadata=undated)
    return out.getvalue()
