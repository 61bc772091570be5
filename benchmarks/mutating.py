"""Small faults, one at a time: every changed expression of a module, and how to import it so."""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
import importlib.abc
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parents[1]

_BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_BINARY |= {ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult}
_COMPARE = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_PAIRS = ("minimum maximum", "min max", "amin amax", "argmin argmax", "any all", "floor ceil")
_CALLS = {
    one: other
    for pair in (*map(str.split, _PAIRS), ("clamp_min", "clamp_max"))
    for one, other in (pair, reversed(pair))
}
#: Calls whose first argument, or whose object, stands for them: margins, absolute values.
_DROPPED = {"up", "round_up", "abs", "nan_to_num", "sqrt"}
Way = tuple[str, ast.AST]  # what was done, and what stands there instead


def ways(node: ast.AST) -> Iterator[Way]:
    """Every small change of one expression."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        yield "operator", ast.BinOp(node.left, _BINARY[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield "sign dropped", node.operand
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other, node.values)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind in _COMPARE.get(type(node.ops[0]), ()):
            yield "comparison", ast.Compare(node.left, [kind()], node.comparators)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        changed = (
            not value if isinstance(value, bool) else value + 1 if value in (0, 1) else 2 * value
        )
        yield "constant", ast.Constant(changed)
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[Way]:
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if called in _CALLS:
        func: Any = copy.copy(node.func)
        setattr(func, "attr" if isinstance(func, ast.Attribute) else "id", _CALLS[called])
        yield "call", ast.Call(func, node.args, node.keywords)
    if called in _DROPPED:
        of_module = isinstance(node.func, ast.Attribute) and (
            isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "math", "np")
        )
        if isinstance(node.func, ast.Attribute) and not of_module:
            yield "call dropped", node.func.value
        elif node.args:
            yield "call dropped", node.args[0]


def expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, Any, int | None]]:
    """Places of expressions that compute: owner, field, what stands there, its place in a list.

    Left out are what only errors, texts, types and help say, and numbers that tune effort: the
    constants at the top of modules and defaults of settings.
    """
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params", "keywords_"):
            continue
        items = [*enumerate(value)] if isinstance(value, list) else [(None, value)]
        for place, item in items:
            if not isinstance(item, ast.AST) or _is_silent(tree, item):
                continue
            if isinstance(item, ast.expr):
                yield tree, field, item, place
            yield from expressions(item)


def _is_silent(owner: ast.AST, item: ast.AST) -> bool:
    if isinstance(item, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(owner, (ast.Module, ast.ClassDef)):
        return isinstance(item, (ast.Assign, ast.AnnAssign, ast.Expr, ast.If))
    if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return item.name in ("__repr__", "__str__")
    if isinstance(owner, ast.keyword) and owner.arg == "strict":
        return True  # of zip: a check of our own that never fails
    if isinstance(owner, ast.Call) and getattr(owner.func, "id", "") in ("cast", "track"):
        return True
    return (
        isinstance(owner, ast.Subscript) and isinstance(item, ast.Constant) and item.value is None
    )


@dataclass(frozen=True)
class Mutant:
    """One changed expression of a module: the ``number``-th of those that are possible."""

    room: str
    module: str
    number: int
    line: int
    kind: str
    before: str
    after: str
    source: str
    ordinal: int

    def changed(self) -> ast.Module:
        """The module with this one change."""
        tree = ast.parse(self.source)
        owner, field, node, place, _, other = next(islice(_changes(tree), self.ordinal, None))
        _put(owner, field, place, ast.copy_location(other, node))
        return ast.fix_missing_locations(tree)

    def lines(self) -> set[int]:
        """Lines of the statement that is changed, without its body: one of them runs, if it does.

        None of what runs when the module is imported.
        """
        tree = ast.parse(self.source)
        node = next(islice(_changes(tree), self.ordinal, None))[2]
        inside = _way_to(tree, node)
        if not any(isinstance(each, (ast.FunctionDef, ast.Lambda)) for each in inside):
            return set()
        outer = [each for each in inside if isinstance(each, (ast.stmt, ast.match_case))][-1]
        if isinstance(outer, ast.FunctionDef):
            return set()
        last = outer.body[0].lineno - 1 if hasattr(outer, "body") else outer.end_lineno
        first = getattr(outer, "lineno", node.lineno)
        return {*range(first, max(first, last) + 1), *range(node.lineno, node.end_lineno + 1)}

    @property
    def within(self) -> str:
        """The function or class whose code it is; empty for the module."""
        tree = ast.parse(self.source)
        node = next(islice(_changes(tree), self.ordinal, None))[2]
        kinds = (ast.FunctionDef, ast.ClassDef)
        return ".".join(each.name for each in _way_to(tree, node) if isinstance(each, kinds))

    def put_in(self) -> bool:
        """Give the functions of the imported module their changed code; False if that can't be."""
        file = str(ROOT / "src" / Path(*self.module.split(".")).with_suffix(".py"))
        pairs = _codes(compile(self.source, file, "exec"), compile(self.changed(), file, "exec"))
        if pairs is None:
            return False
        others = {old: new for old, new in pairs[1:] if old != new}
        functions = [each for each in gc.get_objects() if type(each) is FunctionType]
        ours = [each for each in functions if each.__code__.co_filename == file]
        found = [each for each in ours if each.__code__ in others]
        try:
            for each in found:
                each.__code__ = others[each.__code__]
        except ValueError:  # other variables of the functions around it
            return False
        return bool(found)

    @property
    def title(self) -> str:
        """What it is called in logs."""
        where = f"{self.module.removeprefix('attribound.')}:{self.line}"
        return f"{where}  {self.before}  ->  {self.after}"

    @property
    def key(self) -> str:
        """Its name in the table: other code around it leaves that as it is."""
        text = f"{self.module}|{self.kind}|{self.before}|{self.after}|{self.number}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _way_to(tree: ast.AST, node: ast.AST) -> list[ast.AST]:
    """The nodes around one, from the outermost to itself; empty if it is not there."""
    if tree is node:
        return [node]
    ways_down = (_way_to(child, node) for child in ast.iter_child_nodes(tree))
    below = next(filter(None, ways_down), [])
    return [tree, *below] if below else []


def _codes(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """Pairs of code, from the module inwards; None if they don't have the same functions."""
    within = [
        [each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)
    ]
    if [each.co_name for each in within[0]] != [each.co_name for each in within[1]]:
        return None
    pairs = [(old, new)]
    for one, other in zip(*within, strict=True):
        below = _codes(one, other)
        if below is None:
            return None
        pairs += below
    return pairs


def of_source(room: str, module: str, source: str) -> list[Mutant]:
    """All of one module."""
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    for ordinal, (_, _, node, _, kind, other) in enumerate(_changes(ast.parse(source))):
        before, after = ast.unparse(node), ast.unparse(other)
        number = seen[kind, before, after] = seen.get((kind, before, after), -1) + 1
        where = (number, node.lineno, kind, before, after)
        found.append(Mutant(room, module, *where, source, ordinal))
    return found


def _changes(tree: ast.AST) -> Iterator[tuple[ast.AST, str, Any, int | None, str, Any]]:
    """Every change of every expression, where it is made."""
    for owner, field, node, place in expressions(tree):
        for kind, other in ways(node):
            yield owner, field, node, place, kind, other
        if field == "test" and isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            yield owner, field, node, place, "negated", ast.UnaryOp(ast.Not(), node)


def _put(owner: ast.AST, field: str, place: int | None, node: Any) -> None:
    if place is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[place] = node


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module changed."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: object, target: object = None) -> Any:  # noqa: ARG002
        """Its own spec for that module, None for others."""
        if name != self.mutant.module:
            return None
        file = ROOT / "src" / Path(*name.split(".")).with_suffix(".py")
        return importlib.util.spec_from_file_location(name, file, loader=self)

    def exec_module(self, module: Any) -> None:
        """Run the changed code."""
        exec(compile(self.mutant.changed(), module.__spec__.origin, "exec"), module.__dict__)
