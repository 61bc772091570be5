"""Read the tables out of the paper's own source, independently of what is shipped."""

from __future__ import annotations

import re
from pathlib import Path

METHODS = {
    "CE": "ce",
    "AT": "at",
    "IG-NORM": "ig-norm",
    "AdvAAT": "advaat",
    "ART": "art",
    "TRADES": "trades",
    "TRADES+IGR": "trades-igr",
}
DATA = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar10"}
L2 = ("attack", "bound", "adjusted", "attack_degrees", "bound_degrees")
LINF = ("attack", "bound", "attack_degrees", "bound_degrees")
ATTRIBUTIONS = ("saliency", "input_x_gradient", "ig")

Table = dict[str, dict[str, dict[str, float]]]


def lines(source: str, label: str) -> list[list[str]]:
    """The rows of the table with that label, cut into cells; rules are left out."""
    environments = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source, re.DOTALL)
    (body,) = [each for each in environments if rf"\label{{{label}}}" in each]
    body = body[body.index(r"\toprule") : body.index(r"\bottomrule")]
    body = re.sub(r"(?:(?<!\\)|(?<=\\\\))%.*", "", body)  # a comment may follow a line's end
    body = re.sub(r"\\(top|mid)rule|\\cmidrule\(r\)\{[\d-]+\}", "", body)
    rows = [re.sub(r"\s+", " ", row).strip() for row in body.split(r"\\")]
    return [[cell.strip() for cell in row.split("&")] for row in rows if row]


def numbers(names: tuple[str, ...], cells: list[str]) -> dict[str, float]:
    assert len(names) == len(cells), (names, cells)
    found: dict[str, float] = {}
    for name, cell in zip(names, cells, strict=True):
        if cell == "-":
            continue
        match = re.fullmatch(r"([\d.]+)(?:\s*\[([\d.]+)\\%\])?", cell)
        assert match, cell
        found[name] = float(match[1])
        if match[2] is not None:
            found["exceeded"] = float(match[2])
    return found


def put(table: Table, key: tuple[str, ...], model: str, values: dict[str, float]) -> None:
    table.setdefault("/".join(key), {})[model] = values


def methods_of_table_2(source: str, label: str) -> Table:
    found: Table = {}
    norm, model = "", "trades-igr"
    for row in lines(source, label):
        head = row[0]
        if head in ("$\\ell_2$", "$\\ell_\\infty$"):
            norm = "l2" if "2" in head else "linf"
        if head in METHODS:
            model = METHODS[head]
        values = row[1:]
        if len(values) != 15 or "T" in values[0]:
            continue
        for i, attribution in enumerate(ATTRIBUTIONS):
            printed = numbers(L2, values[5 * i : 5 * i + 5])
            put(found, ("cifar10", norm, "0.1", attribution), model, printed)
    return found


def one_radius(source: str, label: str, norm: str, columns: tuple[str, ...]) -> Table:
    """Tables 3 and 4: a block for each data set, which names its radius."""
    found: Table = {}
    data = epsilon = ""
    for row in lines(source, label):
        if match := re.match(r"\$\\varepsilon=([\d./]+)\$", row[0]):
            epsilon = match[1]
            data = DATA[re.search(r"\{c\}\{(.+)\}", row[1])[1]]
        elif row[0] in METHODS:
            put(found, (data, norm, epsilon, "ig"), METHODS[row[0]], numbers(columns, row[1:]))
    return found


def two_radii(source: str, label: str, norm: str, columns: tuple[str, ...]) -> Table:
    """The ablations: a block for each data set, with two radii side by side."""
    found: Table = {}
    data, radii = "", []
    for row in lines(source, label):
        if row[0] in DATA:
            data = DATA[row[0]]
            radii = re.findall(r"\\varepsilon=([\d./]+)", " ".join(row))
        elif row[0] in METHODS:
            width = len(columns)
            for i, epsilon in enumerate(radii):
                values = numbers(columns, row[1 + width * i : 1 + width * (i + 1)])
                put(found, (data, norm, epsilon, "ig"), METHODS[row[0]], values)
    return found


def gaps(source: str) -> Table:
    found: Table = {}
    norm, radii = "", []
    for row in lines(source, "apxtbl:l2_gap"):
        if "varepsilon" in row[0]:
            norm, radii = ("linf" if "infty" in row[0] else "l2"), row[1:]
        elif row[0] in METHODS:
            for i, (epsilon, value) in enumerate(zip(radii, row[1:], strict=True)):
                data = list(DATA.values())[i // 3]
                put(found, (data, norm, epsilon, "ig"), METHODS[row[0]], {"gap": float(value)})
    return found


def large_images(source: str, label: str, data: str) -> Table:
    found: Table = {}
    for row in lines(source, label):
        if row[0] in METHODS:
            model = METHODS[row[0]]
            put(found, (data, "l2", "0.1", "ig"), model, numbers(L2, row[1:6]))
            put(found, (data, "linf", "8/255", "ig"), model, numbers(LINF, row[6:]))
    return found


def tables(path: Path) -> dict[str, Table]:
    """All tables of numbers, by their place in the paper."""
    source = path.read_text(encoding="utf-8")
    return {
        "table2": methods_of_table_2(source, "tbl:eval_unlabel"),
        "table3": one_radius(source, "tbl:eval_label_l2", "l2", L2),
        "table4": one_radius(source, "tbl:eval_label_linf", "linf", ("kendall", *LINF)),
        "table5": gaps(source),
        "table6": methods_of_table_2(source, "apxtbl:eval_unlabel"),
        "table7": two_radii(source, "apxtbl:l2_label", "l2", L2),
        "table8": two_radii(source, "apxtbl:linf_label", "linf", LINF),
        "table9": large_images(source, "apxtbl:eval_label_linf_flower", "flowers17"),
        "table10": large_images(source, "apxtbl:eval_label_linf_imagenet", "imagenet"),
    }
