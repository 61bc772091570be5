"""Figure 1b and the appendix: the Jacobian of integrated gradients as heatmaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attribound.basics import package
from reproduction.paper.figures.drawing import PAGE, blank, note, nothing, styled
from reproduction.paper.figures.jacobian import DenseJacobian, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = 100  # entries of the paper's figure
_COLOURS = "viridis"
_DECADES = 4  # of the logarithmic scale
_PIXELS = 400  # of a whole heatmap, so that none is lost in print: larger ones are reduced


def normalised(matrix: Matrix) -> Matrix:
    """Absolute values divided by the largest, as the paper has them."""
    sizes = np.abs(matrix)
    largest = sizes.max(initial=np.float32(0))
    found: Matrix = sizes / largest if largest > 0 else sizes
    return found


def dominant(found: DenseJacobian, *, lit: bool = False) -> tuple[int, int]:
    """How many rows have a diagonal entry of at least the sum of the others, and of how many.

    Rows of zeros do not count; with ``lit`` neither do those whose input is zero, which are
    diagonal for every network.
    """
    sizes = np.abs(found.matrix).astype(np.float64)
    sums = sizes.sum(1)
    counted = (sums > 0) & (found.input != 0) if lit else sums > 0
    return int((2 * np.diagonal(sizes) >= sums)[counted].sum()), int(counted.sum())


def reduced(matrix: Matrix, most: int = _PIXELS) -> tuple[Matrix, int]:
    """At most ``most`` rows and columns: the largest of every block, so that no entry is lost.

    The size of the blocks comes with it.
    """
    block = -(-len(matrix) // most)
    if block == 1:
        return matrix, 1
    size = -(-len(matrix) // block)
    padded = np.zeros((size * block, size * block), dtype=matrix.dtype)
    padded[: len(matrix), : len(matrix)] = matrix
    found: Matrix = padded.reshape(size, block, size, block).max(axis=(1, 3))
    return found, block


def middle(found: DenseJacobian) -> int:
    """Where the window of 100 entries with the most input begins.

    The first entries of a picture are often black, as the baseline is: there the Jacobian
    of integrated gradients is diagonal whatever the network.
    """
    sizes = np.concatenate([[0.0], np.cumsum(np.abs(found.input), dtype=np.float64)])
    window = min(_SHOWN, len(found.input))
    return int((sizes[window:] - sizes[:-window]).argmax())


@styled
def draw_first(jacobians: Mapping[str, DenseJacobian], missing: str = "") -> Figure:
    """A column a data set: the first 100 entries, and the 100 where the input is largest.

    Args:
        jacobians: by title of the data.
        missing: note on data without one.
    """
    if not jacobians:
        return nothing(f"No Jacobians to draw. {missing}")
    figure = blank(max(2.3 * len(jacobians) + 0.5, 3.4), 4.8)
    grid = figure.subplots(2, len(jacobians), squeeze=False)
    for column, (title, found) in zip(grid.T, jacobians.items(), strict=True):
        for axes, start in zip(column, (0, middle(found)), strict=True):
            shown = _window(axes, found, start)
        column[0].set_title(f"{title}\n{column[0].get_title()}")
    bar = figure.colorbar(shown, ax=grid, shrink=0.5, aspect=30)
    bar.set_label("$|J_{ij}|$ / largest shown")
    note(
        figure,
        "Above as in the paper; below where the sample is largest. In rows with an input of 0, "
        "the baseline, the matrix is diagonal for every network: J = diag(mean gradient) + "
        "diag(x - a) H.",
        missing,
    )
    return figure


def _window(axes: Axes, found: DenseJacobian, start: int) -> Any:
    stop = min(start + _SHOWN, len(found.matrix))
    part = found.matrix[start:stop, start:stop]
    shown = axes.imshow(
        normalised(part),
        cmap=_COLOURS,
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(start, stop, stop, start),
    )
    black = int((found.input[start:stop] == 0).sum())
    axes.set_title(f"{start} to {stop - 1}: {black} inputs are 0")
    axes.locator_params(nbins=5)
    return shown


@styled
def draw_full(title: str, found: DenseJacobian) -> Figure:
    """The whole matrix, on the paper's linear scale and on a logarithmic one."""
    colours = package("matplotlib.colors", extra="audit", purpose="figures")
    shown, block = reduced(normalised(found.matrix))
    figure = blank(PAGE, 3.4)
    figure.suptitle(f"{title}: {len(found.matrix)} by {len(found.matrix)}", fontsize=9)
    scales = {
        "linear": colours.Normalize(0, 1),
        "logarithmic": colours.LogNorm(10.0**-_DECADES, 1, clip=True),
    }
    size = len(found.matrix)
    for axes, (name, scale) in zip(figure.subplots(1, 2), scales.items(), strict=True):
        image = axes.imshow(
            shown, cmap=_COLOURS, norm=scale, interpolation="nearest", extent=(0, size, size, 0)
        )
        axes.set_title(name)
        figure.colorbar(image, ax=axes, shrink=0.7)
    every, lit = dominant(found), dominant(found, lit=True)
    note(
        figure,
        f"Sample {found.sample}. Rows whose diagonal entry is at least the sum of the others: "
        f"{every[0]} of {every[1]} that are not zero; {lit[0]} of the {lit[1]} among them whose "
        "input is not 0.",
        f"Each pixel is the largest of {block} by {block} entries." if block > 1 else "",
    )
    return figure
