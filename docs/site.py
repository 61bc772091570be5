"""``make site``: the pages of README, docs, commands and API in one folder, built by MkDocs.

Nothing is written twice: the home page is README, the command reference comes from the commands,
the API reference from the docstrings of what each room offers, a page for each name. Pages are a
screen or three (``divide.py``). A dead link is an error.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import typer
from typer.cli import get_docs_for_click

import attribound as ab
from attribound.cli.app import app

sys.path.append(str(Path(__file__).parent))  # MkDocs and tests load this file from elsewhere

from divide import divided, parts

ROOT = Path(__file__).resolve().parents[1]
PAGES, SOURCES = ROOT / "build" / "pages", ROOT / "build" / "sources"
#: Files beside docs, and what their pages are called.
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
#: The rooms with names for users, and what they are about.
ROOMS = {
    "attributions": "what is bounded",
    "balls": "where",
    "bounding": "bounds, reasons, radii",
    "attacks": "lower bounds",
    "networks": "smooth copies",
    "results": "numbers with their claims",
    "auditing": "audits and runs",
    "report": "tables and pages",
    "metrics": "how alike maps are",
    "training": "objectives and the trainer",
    "zoo": "trained networks",
    "data": "examples",
    "models": "networks to start with",
    "values": "settings",
    "operators": "linear operators",
    "spectral": "solvers",
    "errors": "what is refused, and why",
}
#: Rooms whose names are at home elsewhere.
HOMES = {"errors": "basics.errors"}
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?(?:[\w.]*\.)?(\w+)`")
_DOCTEST = re.compile(r"^( *)(>>> .*(?:\n\1(?!\"\"\").+)*)", re.MULTILINE)
#: Browsers start no workers from files, and the search is one: here it lives in a hidden frame.
#: The theme looks for these names, and would fetch its own from elsewhere.
WORKER = """\
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    this.frame = frame;
    const inside = frame.contentWindow;
    inside.document.open();
    inside.document.write("<html><body></body></html>");
    inside.document.close();
    inside.postMessage = data => {
      const event = new MessageEvent("message", {data});
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    };
    inside.importScripts = () => Promise.resolve();
    const script = inside.document.createElement("script");
    script.src = url;
    this.ready = new Promise(done => script.addEventListener("load", done));
    inside.document.body.appendChild(script);
  }
  postMessage(data) {
    this.ready.then(() =>
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
  }
  terminate() { this.frame.remove(); }
}
if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
"""
#: What programs print is wide: pages as wide as screens, code a little smaller than text.
STYLE = """\
.md-grid { max-width: 80rem; }
.md-typeset p, .md-typeset ul, .md-typeset ol { max-width: 45rem; }
.md-typeset pre > code { font-size: 0.62rem; }
.doc-object h2.doc-heading { margin: 1.2em 0 .4em; font-size: 1.1em; }
.md-typeset td:first-child code { word-break: normal; white-space: nowrap; }
.doc-object pre, .doc-object ul { margin: .5em 0; }
"""


def gathered() -> dict[str, str]:
    """All pages by their names, links between them mended."""
    pages = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
    pages |= {page: (ROOT / file).read_text() for file, page in BESIDE.items()}
    pages["install.md"] = install()
    pages["commands.md"] = commands()
    pages["cite.md"] = f"# How to cite\n\n```yaml\n{(ROOT / 'CITATION.cff').read_text()}```\n"
    pages = divided({name: linked(text) for name, text in pages.items()})
    for room in ROOMS:
        pages |= reference(room)
    return pages


def linked(text: str) -> str:
    """``text`` with links as they are where all pages lie in one folder."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
    for file, page in BESIDE.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(file)}", f"]({page}", text)
    return text


def install() -> str:
    """What README says of installing, as a page of its own, and what each extra is for."""
    (said,) = re.findall(r"## Use it\n(.*?)\n\n\|", (ROOT / "README.md").read_text(), re.DOTALL)
    steps = "python -m venv venv && . venv/bin/activate\npip install '.[audit]'\npip install ./zoo"
    tried = "attribound --version\nattribound zoo"
    return (
        f"# Install\n\n{said}\n\n```\n{steps}\n{tried}\n```\n\nFirst steps: [how to](howto.md).\n"
    )


def commands() -> str:
    """The command reference, from the commands."""
    root = typer.main.get_command(app)
    made: str = get_docs_for_click(obj=root, ctx=typer.Context(root), name="attribound")
    return made.replace("# `attribound`", "# Commands", 1)


def reference(room: str) -> dict[str, str]:
    """The pages of a room: a list of its names, and each with its docstring.

    Names that differ by case alone share a page: not every file system holds both. Constants
    have no docstring, and stand in the list with what they are.
    """
    found: dict[str, object] = {}
    home = f"attribound.{HOMES.get(room, room)}"
    module = importlib.import_module(home)
    for name in getattr(module, "__all__", ()):
        found[name] = getattr(module, name)
    for name in ab.__all__:  # names of a room that has no list of its own
        value = getattr(ab, name)
        if str(getattr(value, "__module__", "")).startswith(home):
            found.setdefault(name, value)
    rows, pages = [], {}
    for name, value in sorted(found.items()):
        if inspect.ismodule(value):
            continue
        if not inspect.isclass(value) and not inspect.isfunction(value):
            rows.append(f"| `{name}` | {_constant(value)} |")
        elif value.__module__.startswith(home):
            page = f"api_{room}.{name.lower()}.md"
            above = f"---\ntitle: {name}\n---\n\nOf [{_title(room)}](api_{room}.md).\n"
            pages[page] = f"{pages.get(page, above)}\n::: {value.__module__}.{value.__qualname__}\n"
            rows.append(f"| [`{name}`]({page}) | {_first(value)} |")
    head = [f"# {_title(room)}", "", (module.__doc__ or "").strip(), ""]
    table = ["| name | about |", "|---|---|", *rows, ""]
    return {f"api_{room}.md": "\n".join([*head, *table]), **pages}


def _title(room: str) -> str:
    """Where the names of a room are imported from."""
    return f"attribound: {room}" if room in HOMES else f"attribound.{room}"


def _constant(value: object) -> str:
    """What a constant is; a mapping by its keys."""
    shown = ", ".join(map(str, value)) if isinstance(value, (dict, tuple)) else str(value)
    return shown.replace("|", "\\|")


def _first(value: object) -> str:
    """The first sentence of a docstring, as a cell of a table."""
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return _ROLE.sub(r"`\1`", " ".join(paragraph.split())).replace("|", "\\|")


def on_config(config: dict[str, list[dict[str, object]]]) -> None:
    """MkDocs: the pages of the rooms, and parts of long pages, are in the menu."""
    config["nav"] = menu(config["nav"], gathered())


def menu(entries: list[dict[str, object]], pages: dict[str, str]) -> list[dict[str, object]]:
    """``entries``, where a page with parts is followed by these."""
    made: list[dict[str, object]] = []
    for entry in entries:
        ((title, what),) = entry.items() if isinstance(entry, dict) else ((None, entry),)
        if title == "API":
            what = [{f"{room}: {about}": f"api_{room}.md"} for room, about in ROOMS.items()]
        elif isinstance(what, list):
            what = menu(what, pages)
        elif several := parts(str(what), pages):
            title, what = title or pages[str(what)].split("\n", 1)[0][2:], [what, *several]
        made.append({title: what} if title else what)
    return made


def readable(source: str) -> str:
    """A source file whose docstrings are Markdown: names as names, doctests as blocks of code."""
    named = _ROLE.sub(r"``\1``", source)
    return _DOCTEST.sub(r"\1```pycon\n\1\2\n\1```", named)


def main() -> None:
    """Gather, build, say where."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name, text in gathered().items():
        (PAGES / name).write_text(text)
    shutil.copytree(ROOT / "docs" / "images", PAGES / "images")
    (PAGES / "iframe-worker.js").write_text(WORKER)
    (PAGES / "wide.css").write_text(STYLE)
    shutil.rmtree(SOURCES, ignore_errors=True)
    for path in sorted((ROOT / "src").rglob("*.py")):
        copy = SOURCES / path.relative_to(ROOT / "src")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(readable(path.read_text()))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=quiet, check=True)  # noqa: S603
    print("The site: build/site/index.html")  # noqa: T201


if __name__ == "__main__":
    main()
