"""From a CSV file of applicants to a sentence about their reasons.

    python examples/credit.py                      # the test part of the shipped German table
    python examples/credit.py mine.csv --eps 0.05  # your own file, with the same columns

A network decides on credit. Who is refused is told the four columns that spoke most for it. How
sure is that list? This asks which of the four can't change while the applicant's numbers move by at
most EPS standard deviations, and attacks the list, too. Nothing here is legal advice: see
docs/credit.md.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch

import attribound as ab
from attribound.auditing import FeatureMoments, TableSettings, ball_in_units, inner_scaler
from attribound.basics.errors import InputError
from attribound.data import Columns, Examples, Layout, load

MODEL, DATA = "credit-german/at-mlp", "credit-german"
REFUSED, REASONS = "bad", 4


def written(path: Path) -> Path:
    """The shipped applicants as a CSV file, as a bank would have them."""
    people = load(DATA, "test")
    assert people.columns is not None
    rows = people.read(torch.arange(len(people)))
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", *people.columns.names, "creditability"])
        for number, (row, label) in enumerate(zip(rows, people.labels.tolist(), strict=True)):
            cells = [_cell(people.columns, name, row) for name in people.columns.names]
            out.writerow([f"applicant {number + 1}", *cells, people.classes[label]])
    return path


def _cell(columns: Columns, name: str, row: torch.Tensor) -> str:
    places = columns.of(name)
    if name in columns.categories:
        return columns.categories[name][int(row[places].argmax())]
    return f"{row[places[0]].item():g}"


def applicants(path: Path) -> Examples:
    """The applicants in a file, its categories numbered as in training."""
    known = load(DATA, "train")
    assert known.columns is not None
    categories = {**known.columns.categories, "creditability": tuple(known.classes)}
    people = load(path, layout=Layout("creditability", "id", categories=categories))
    if people.columns is None or people.columns.features != known.columns.features:
        raise InputError(
            str(path),
            expected=f"the columns {', '.join(known.columns.names)}",
            got=", ".join(people.columns.names if people.columns else ()),
            remedy="use the columns that the network was trained on",
        )
    return people


def main() -> None:
    """Load, ask, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, help="CSV; default: the shipped applicants")
    parser.add_argument("--eps", type=float, default=0.1, help="in standard deviations")
    parser.add_argument("--limit", type=int, help="look at so many refused applicants")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    people = applicants(asked.file or written(Path("applicants.csv")))
    columns, model = people.columns, ab.zoo.load(MODEL)
    assert columns is not None
    x = people.read(torch.arange(len(people)))
    refused = (model(x).argmax(1) == people.classes.index(REFUSED)).nonzero().flatten()
    refused = refused[: asked.limit]

    scaler = inner_scaler(model)  # of the training: what a standard deviation is
    assert scaler is not None
    mean, std = (torch.tensor(each, dtype=torch.float64) for each in (scaler.mean, scaler.std))
    ball = ball_in_units(ab.L2Ball(asked.eps), TableSettings(), columns, FeatureMoments(mean, std))
    explained = ab.Grouped(
        ab.IntegratedGradients(model, baseline=mean.float()), torch.tensor(columns.groups)
    )
    found = ab.reasons(explained, x[refused], ball, REASONS, claim="certified", names=columns.names)
    assert found.attained is not None
    assert people.ids is not None
    stay, moved = int((found.kept == REASONS).sum()), int((found.attained.kept < REASONS).sum())
    print(
        f"For {stay} of {len(refused)} refused applicants the four reasons can't change within "
        f"{asked.eps:g} standard deviations; for {moved} an attack changed one."
    )
    for row in range(min(3, len(refused))):
        print(f"\n{people.ids[refused[row]]}: {found.sentence(row)}")
        for rank in range(REASONS):
            kept = "stays" if found.stays[row, rank] else "may leave"
            low, high = found.low[row, rank], found.high[row, rank]
            name = columns.names[found.features[row, rank]]
            print(f"  {name}: {found.values[row, rank]:.3f} ({low:.3f} to {high:.3f}), {kept}")


if __name__ == "__main__":
    main()
