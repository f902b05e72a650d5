"""Mutants of functions: the source's syntax tree with one synchronising call deleted, or one of its numbers altered."""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import functools
import linecache
import operator
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import cuda

from hopper_numba.fingerprint import captured
from hopper_numba.intrinsics.ptx import Instruction
from hopper_numba.intrinsics.tiles import Barriers, Shared, Tile
from hopper_numba.pipeline import NAMES, Cursor, Pipeline
from hopper_numba.shared import SharedLayout

from .reach import Reached

SYNCHRONISING = (
    "barrier.",
    "cluster.arrive",
    "cluster.sync",
    "cluster.wait",
    "cuda.",
    "cp_async.arrive",
    "cp_async.commit",
    "cp_async.wait",
    "fence.",
    "mbarrier.",
    "pipeline.",
    "tma.commit",
    "tma.wait",
    "wgmma.commit",
    "wgmma.fence",
    "wgmma.wait",
)
"""How the names of instructions begin that are deleted."""
QUESTIONS = ("mbarrier.test_wait", "mbarrier.try_wait")
"""Of those the ones that are true, where they are deleted: the others' value becomes that of their first argument."""
OF_CUDA = ("syncthreads", "syncthreads_and", "syncthreads_count", "syncthreads_or", "syncwarp")
OF_CUDA += ("threadfence", "threadfence_block", "threadfence_system")

OF_PIPELINE = {name for name in NAMES if callable(getattr(Cursor, name, None))} | {"init"}
"""What a Pipeline and its cursors can be told."""

COUNTED = (*SYNCHRONISING, "bulk.")
"""How the names of instructions begin whose numbers are altered."""
ALTERATIONS = {
    "count": (("+", 1), ("-", 1)),
    "n": (("+", 1), ("-", 1)),
    "nbytes": (("+", 16), ("-", 16), ("//", 2)),
    "parity": (("^", 1),),
    "threads": (("+", 32), ("-", 32)),
}
"""What is done to a number, by the name of the parameter."""
OPERATORS: dict[str, tuple[type[ast.operator], Callable[[Any, int], Any]]] = {
    "+": (ast.Add, operator.add),
    "-": (ast.Sub, operator.sub),
    "//": (ast.FloorDiv, operator.floordiv),
    "^": (ast.BitXor, operator.xor),
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A function altered in one place.

    Attributes
    ----------
    function : function
        The original.
    code : code
        What it is in the mutant.
    line : int
    call : str
        The name of the instruction that is altered, or ``stage`` where it is an index.
    what : str
        ``deleted``, or what is done to which number: ``count + 1``.
    text : str
        The call as it was if it is deleted, else as it is now.
    """

    function: types.FunctionType
    code: types.CodeType
    line: int
    call: str
    what: str
    text: str

    @property
    def place(self) -> str:
        return f"{Path(self.code.co_filename).name}:{self.line}"

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Put it in the original's place, for all that reach it."""
        original = self.function.__code__
        self.function.__code__ = self.code
        try:
            yield
        finally:
            self.function.__code__ = original

    def __str__(self) -> str:
        return f"{'-' if self.what == 'deleted' else '~'} {self.text}"


def mutants_of(kernel: Any) -> list[Mutant]:
    """All mutants of a kernel and of the functions that it reaches, in the order of the source."""
    reached = Reached(kernel)
    stages = stages_of(reached)
    is_alone = all(layout.cluster == 1 for layout in reached.layouts if isinstance(layout, Pipeline))
    found = [mutant for function in reached.functions for mutant in _mutants(function, stages, is_alone)]
    return sorted(found, key=lambda mutant: (mutant.code.co_filename, mutant.line))


def stages_of(reached: Reached) -> dict[str, int]:
    """How many stages the members of the layouts have that have several, by their names."""
    found = {}
    for layout in reached.layouts:
        for name, member in layout.members.items():
            if (stages := _stages(member, layout)) > 1:
                found[name] = stages
    return found


def _stages(member: Shared, layout: SharedLayout) -> int:
    if isinstance(member, Barriers):
        return member.count or 1
    if isinstance(layout, Pipeline):  # what a cursor has of a tile is one stage: an index picks something in it
        return 1
    return member.shape[0] if isinstance(member, Tile) and len(member.shape) > 2 else 1


# One function --------------------------------------------------------------------------------------------------------


def _mutants(function: types.FunctionType, stages: dict[str, int], is_alone: bool) -> Iterator[Mutant]:
    tree = _module(function.__code__.co_filename)
    definition = _definition(tree, function.__code__)
    aliases = _aliases(definition, stages)
    made = _within(definition, function, "mbarrier.init")  # for all stages mostly: another order of them is no mutant
    unreached = _within(definition, function, "mbarrier.arrive_remote") if is_alone else set()  # `Pipeline`'s branch
    constant = {id(n.value) for n in ast.walk(definition) if isinstance(n, ast.Attribute) and n.attr in Tile.constants}
    for node in ast.walk(definition):
        if id(node) in unreached | constant:  # every stage has as many bytes
            continue
        if isinstance(node, ast.Call):
            callee = _value(node.func, function)
            call = _name(callee) or _of_pipeline(node)
            changes = _changes_of_call(node, callee, call)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            count = stages.get(node.value.attr, 1) if isinstance(node.value, ast.Attribute) else 1
            count = aliases.get(node.value.id, 1) if isinstance(node.value, ast.Name) else count
            call, changes = "stage", _changes_of_index(node, count, wraps=id(node) not in made)
        else:
            continue
        for what, text, change in changes:
            code = _compiled(tree, node, change, function.__code__)
            yield Mutant(function, code, node.lineno, call, what, text)


Change = tuple[str, str, Callable[[Any], ast.AST]]
"""What, its text, and what becomes of a copy of the node."""


def _changes_of_call(node: ast.Call, callee: Any, call: str) -> Iterator[Change]:
    if call.startswith(SYNCHRONISING):
        yield "deleted", ast.unparse(node), functools.partial(_deleted, call)
    if isinstance(callee, Instruction) and call.startswith(COUNTED):
        for parameter, alterations in ALTERATIONS.items():
            if parameter not in callee.parameters or _argument(node, callee, parameter) is None:
                continue
            for sign, number in alterations:
                change = functools.partial(_altered, callee, parameter, sign, number)
                yield f"{parameter} {sign} {number}", ast.unparse(change(copy.deepcopy(node))), change


def _changes_of_index(node: ast.Subscript, count: int, wraps: bool) -> Iterator[Change]:
    if count > 1:
        change = functools.partial(_next_stage, count, wraps)
        yield "index + 1", ast.unparse(change(copy.deepcopy(node))), change


def _deleted(call: str, node: ast.Call) -> ast.AST:
    """What is left of a call: its value. It stands where nothing executes it, so that the closure stays the same."""
    is_true = call.startswith(QUESTIONS) or not node.args
    return ast.IfExp(ast.Constant(True), ast.Constant(True) if is_true else copy.deepcopy(node.args[0]), node)


def _altered(callee: Instruction, parameter: str, sign: str, number: int, node: ast.Call) -> ast.AST:
    where = _argument(node, callee, parameter)
    assert where is not None
    holder, key = where
    if isinstance(holder, list):
        holder[key] = _combined(holder[key], sign, number)
    else:
        holder.value = _combined(holder.value, sign, number)
    return node


def _combined(old: ast.expr, sign: str, number: int) -> ast.expr:
    node, function = OPERATORS[sign]
    if isinstance(old, ast.Constant):  # some operands must be literals
        return ast.Constant(function(old.value, number))
    return ast.BinOp(old, node(), ast.Constant(number))


def _argument(node: ast.Call, callee: Instruction, parameter: str) -> tuple[Any, int] | None:
    """Where the argument for a parameter stands: a list and the place in it, or a keyword; None if it is left out."""
    position = list(callee.parameters).index(parameter)
    if position < len(node.args):
        return node.args, position
    return next(((keyword, 0) for keyword in node.keywords if keyword.arg == parameter), None)


def _next_stage(count: int, wraps: bool, node: ast.Subscript) -> ast.AST:
    """The index of the next stage; if it `wraps`, that behind the last is the first."""
    is_many = isinstance(node.slice, ast.Tuple)
    shifted: ast.expr = ast.BinOp(node.slice.elts[0] if is_many else node.slice, ast.Add(), ast.Constant(1))
    if wraps:
        shifted = ast.BinOp(shifted, ast.Mod(), ast.Constant(count))
    if is_many:
        node.slice.elts[0] = shifted
    else:
        node.slice = shifted
    return node


# Source --------------------------------------------------------------------------------------------------------------


@functools.cache
def _module(filename: str) -> ast.Module:
    return ast.parse("".join(linecache.getlines(filename)), filename)


def _definition(tree: ast.Module, code: types.CodeType) -> ast.AST:
    """Where a function is defined."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            return node
    raise LookupError(f"no source of {code.co_qualname} at {code.co_filename}:{code.co_firstlineno}")


def _aliases(definition: ast.AST, stages: dict[str, int]) -> dict[str, int]:
    """The local names of what has several stages: ``full = smem.full``."""
    return {
        node.targets[0].id: stages[node.value.attr]
        for node in ast.walk(definition)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr in stages
    }


def _within(definition: ast.AST, function: types.FunctionType, name: str) -> set[int]:
    """All nodes in calls of the instructions whose names begin so."""
    calls = [node for node in ast.walk(definition) if isinstance(node, ast.Call)]
    found = [call for call in calls if _name(_value(call.func, function)).startswith(name)]
    return {id(node) for call in found for node in ast.walk(call)}


def _value(node: ast.expr, function: types.FunctionType) -> Any:
    """What an expression of names and attributes is in a function; None if only the run tells."""
    if isinstance(node, ast.Name):
        return captured(function).get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, function), node.attr, None)
    return None


def _name(callee: Any) -> str:
    """The name of an instruction, or of what synchronises in numba.cuda; else nothing."""
    if isinstance(callee, Instruction):
        return callee.name
    return next((f"cuda.{name}" for name in OF_CUDA if callee is getattr(cuda, name)), "")


def _of_pipeline(node: ast.Call) -> str:
    """The name of a method of a `Pipeline` or its cursor; else nothing."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return f"pipeline.{called}" if called in OF_PIPELINE else ""


def _compiled(
    tree: ast.Module, node: ast.AST, change: Callable[[Any], ast.AST], code: types.CodeType
) -> types.CodeType:
    """The code of a function whose source is changed at a node."""
    changed = ast.fix_missing_locations(_At(node, change).visit(copy.deepcopy(tree)))
    found = _find(compile(changed, code.co_filename, "exec", dont_inherit=True), code)
    assert found is not None and found.co_freevars == code.co_freevars
    return found


class _At(ast.NodeTransformer):
    """Changes the node that stands where another one does in another copy of the tree."""

    def __init__(self, node: ast.AST, change: Callable[[Any], ast.AST]) -> None:
        self._place, self._change = _place(node), change

    def visit(self, node: ast.AST) -> ast.AST:
        if _place(node) == self._place:
            return ast.copy_location(self._change(node), node)
        return self.generic_visit(node)


def _place(node: ast.AST) -> tuple:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return type(node), *(getattr(node, name, None) for name in names)


def _find(module: types.CodeType, code: types.CodeType) -> types.CodeType | None:
    for constant in module.co_consts:
        if isinstance(constant, types.CodeType):
            wanted = (code.co_qualname, code.co_firstlineno)
            if (constant.co_qualname, constant.co_firstlineno) == wanted:
                return constant
            if (found := _find(constant, code)) is not None:
                return found
    return None
