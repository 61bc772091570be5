from __future__ import annotations

import re

import matplotlib as mpl
import pytest

from attribound.basics import StorageError
from paper_synthetic import texts
from reproduction.paper.figures import drawing
from reproduction.paper.items import METHODS


@drawing.styled
def plot(label: str = "τ"):
    figure = drawing.blank(2, 1.5)
    figure.subplots().plot([1, 2], [3, 4], label=label)
    figure.axes[0].set_xlabel(label)
    return figure


def test_files_are_the_same_bytes_each_time_and_have_their_fonts_inside(tmp_path) -> None:
    one, other = (drawing.save(plot(), tmp_path / name, "plot") for name in ("a", "b"))
    assert [path.name for path in one] == ["plot.png", "plot.pdf"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    pdf = one[1].read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert not re.search(rb"/CreationDate|D:20\d\d", pdf)
    changed = drawing.save(plot("other"), tmp_path / "c", "plot")
    assert changed[0].read_bytes() != one[0].read_bytes()


def test_the_settings_of_the_user_change_nothing_and_are_left_alone(tmp_path) -> None:
    plain = drawing.save(plot(), tmp_path / "a", "plot")[0].read_bytes()
    with mpl.rc_context({"font.size": 20, "lines.linewidth": 9}):
        assert drawing.save(plot(), tmp_path / "b", "plot")[0].read_bytes() == plain
        assert mpl.rcParams["font.size"] == 20


def test_a_folder_that_cannot_be_made_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        drawing.save(plot(), tmp_path / "file" / "folder", "plot")


def test_models_have_the_names_of_the_paper_and_looks_of_their_own() -> None:
    assert drawing.title_of("trades-igr") == "TRADES+IGR"
    assert drawing.title_of("ce-full") == "CE (full)"
    assert drawing.title_of("mine$") == r"mine\$"
    looks = [drawing.look_of(model) for model in METHODS]
    for key in ("color", "marker"):
        assert len({look[key] for look in looks}) == len(METHODS)
    assert drawing.look_of("ce-full") == {"color": drawing.look_of("ce")["color"], "marker": "*"}
    assert drawing.look_of("mine")["marker"] == "*"


def test_the_note_names_what_is_left_out_by_reason() -> None:
    missing = {"at": "make zoo", "trades-igr": "make zoo", "ce-full": "no $ weights"}
    expected = r"Left out: AT, TRADES+IGR (make zoo); CE (full) (no \$ weights)"
    assert drawing.left_out(missing) == expected
    assert drawing.left_out({}) == ""


def test_notes_are_wrapped_to_the_figure_and_empty_ones_left_out() -> None:
    figure = drawing.blank(2, 1)
    drawing.note(figure, "", "word " * 30, "end")
    lines = texts(figure).splitlines()
    assert all(len(line) <= 2 * 19 for line in lines)
    assert " ".join(lines).split() == ["word"] * 30 + ["end"]
    bare = drawing.blank(2, 1)
    drawing.note(bare, "")
    assert texts(bare) == ""


def test_panels_beyond_those_asked_for_are_off() -> None:
    figure, axes = drawing.panels(4, 3, (1, 1))
    assert len(axes) == 4
    assert [panel.axison for panel in figure.axes] == [True] * 4 + [False] * 2


def test_a_legend_has_every_entry_of_all_panels_once() -> None:
    figure, axes = drawing.panels(2, 2, (3, 1))
    axes[0].plot([1], label="both")
    axes[1].plot([1], label="both")
    axes[1].plot([2], label="one")
    drawing.legend(figure, "title", axes)
    (box,) = figure.legends
    assert sorted(text.get_text() for text in box.get_texts()) == ["both", "one"]
    assert box.get_title().get_text() == "title"


def test_nothing_says_why() -> None:
    assert "no runs" in texts(drawing.nothing("no runs"))
