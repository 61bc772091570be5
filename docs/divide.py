"""Pages of a screen or three: what is longer becomes several pages, with links between them.

Files in docs are read from top to bottom; on the site a long table has a page of its own, and so
has every section of a page that is still too long. Links to what moved are mended.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby

#: Screens that a page may have; sizes in pixels, as the theme draws them on a desktop.
SCREENS, SCREEN = 3, 900
#: A section shorter than this joins the one before.
SHORT = 0.5
LINE, CODE, ROW, GAP, LETTERS = 26, 17.4, 40, 20, 115
_PART = re.compile(r"<!-- begin ([\w ]+) -->\n(.*?)<!-- end \1 -->", re.DOTALL)
_LINK = re.compile(r"\]\(([\w.-]+\.md|)#([\w-]+)\)")
_TITLED = re.compile(r"^\*\*(Table [^*]+)\*\*$", re.MULTILINE)


def divided(pages: Mapping[str, str]) -> dict[str, str]:
    """All pages, none too long except for single tables, links mended."""
    made: dict[str, str] = {}
    for name, text in pages.items():
        made |= _divide(name, _TITLED.sub(r"### \1", text))
    places: dict[tuple[str, str], tuple[str, int]] = {}
    for name, text in made.items():
        for level, head in headings(text):
            places.setdefault((_root(name), slug(head)), (name, level))
    return {name: _mended(name, text, places) for name, text in made.items()}


def parts(name: str, pages: Mapping[str, str]) -> list[str]:
    """The pages that were taken out of ``name``, in order."""
    return [other for other in pages if other.startswith(f"{name.removesuffix('.md')}.")][1:]


def is_table(text: str) -> bool:
    """Whether a page is one of those that may be long: a table, or what a program printed."""
    return text.startswith("# Table")


def length(text: str) -> float:
    """About how many screens of a desktop a page takes."""
    height = 0.0
    for code, lines in _blocks(text):
        if code:
            height += CODE * len(lines) + 2 * GAP
            continue
        for paragraph in "\n".join(lines).split("\n\n"):
            rows = [line for line in paragraph.splitlines() if line.startswith("|")]
            height += sum(ROW + LINE * (len(row) // (2 * LETTERS)) for row in rows)
            items = [line for line in paragraph.splitlines() if not line.startswith("|")]
            height += LINE * -(-sum(map(len, items)) // LETTERS) + GAP * bool(paragraph.strip())
            height += GAP * sum(line.startswith(("#", "- ", "* ")) for line in items)
            height += SCREEN / 2 * paragraph.count("![")
    return height / SCREEN


def headings(text: str) -> Iterator[tuple[int, str]]:
    """Level and words of every heading."""
    for code, lines in _blocks(text):
        for line in () if code else lines:
            if found := re.match(r"(#+) (.*)", line):
                yield len(found[1]), found[2]


def slug(head: str) -> str:
    """A heading as MkDocs makes an anchor of it."""
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head.replace("`", ""))
    plain = unicodedata.normalize("NFKD", shown).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _root(name: str) -> str:
    return f"{name.partition('.')[0]}.md"


def _blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Lines of code with their fences, and the others, in turn."""
    inside, marked = False, []
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        marked.append((inside or fence, line))
        inside ^= fence
    for code, lines in groupby(marked, key=lambda each: each[0]):
        yield code, [line for _, line in lines]


def _divide(name: str, text: str) -> dict[str, str]:
    """A page and those taken out of it: tables longer than a screen first, then sections."""
    if length(text) <= SCREENS:
        return {name: text}
    stem, title = name.removesuffix(".md"), next((head for _, head in headings(text)), name)
    tables: dict[str, str] = {}

    def moved(found: re.Match[str]) -> str:
        if is_table(text) or length(found[2]) <= 1:
            return found[0]
        page = f"{stem}.{slug(found[1])}.md"
        tables[page] = f"# Table: {found[1]}\n\nOf [{title}]({name}).\n\n{found[0]}\n"
        return f"[Table: {found[1]}]({page}), on a page of its own"

    shorter = _PART.sub(moved, text)
    first, sections = _sections(shorter)
    if length(shorter) <= SCREENS or len(sections) < 2:
        made = {name: shorter}
    else:
        made, entries = {name: ""}, []
        for number, (head, body) in enumerate(sections, 1):
            page = f"{stem}.{number}-{slug(head)}.md"
            whose = f"Part {number} of {len(sections)} of [{title}]({name})."
            go_on = " Snippets go on from the parts before." * _goes_on(number, body)
            if f"](#{slug(head)})" not in first:
                entries.append(f"- [{head}]({page})")
            made |= _divide(page, f"# {head}\n\n*{whose}{go_on}*\n\n{body}\n")
        listed = ["Go on:", "", *entries, ""] if entries else []  # none if its text has them all
        made[name] = "\n".join([first.rstrip(), "", *listed])
    for page, table in tables.items():
        made |= _divide(page, table)
    return made


def _goes_on(number: int, body: str) -> bool:
    """Whether snippets of a part need those of the parts before: they import nothing of ours."""
    return number > 1 and "```python" in body and "import attribound" not in body


def _sections(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What comes first, then every section of the highest level: its heading, and its text.

    A short section joins the one before. Headings inside one rise, as its own becomes a title.
    """
    counts = Counter(level for level, _ in headings(text) if level > 1)
    top = min((level for level, count in counts.items() if count > 1), default=0)
    first: list[str] = []
    found: list[tuple[str, list[str]]] = []
    for code, lines in _blocks(text):
        for line in lines:
            head = None if code else re.match(r"(#+) (.*)", line)
            if head and len(head[1]) == top:
                found.append((head[2], []))
                continue
            risen = line[top - 1 :] if head and len(head[1]) > top > 0 else line
            (found[-1][1] if found else first).append(risen)
    joined: list[tuple[str, str]] = []
    for head, lines in found:
        body = "\n".join(lines).strip()
        if joined and length(body) < SHORT and length(joined[-1][1]) + length(body) < SCREENS / 2:
            before, whole = joined.pop()
            parted = whole if whole.startswith("## ") else f"## {before}\n{whole}"
            joined.append((f"{before}; {_lower(head)}", f"{parted}\n\n## {head}\n{body}"))
        else:
            joined.append((head, body))
    return "\n".join(first), joined


def _lower(head: str) -> str:
    """A heading inside another: small, unless its first word is written large throughout."""
    return head if head[:2].isupper() else head[:1].lower() + head[1:]


def _mended(name: str, text: str, places: Mapping[tuple[str, str], tuple[str, int]]) -> str:
    def link(found: re.Match[str]) -> str:
        page, anchor = found[1] or name, found[2]
        there, level = places.get((_root(page), anchor), (page, 2))
        return f"]({there})" if level == 1 else f"]({'' if there == name else there}#{anchor})"

    return _LINK.sub(link, text)
