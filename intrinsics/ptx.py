"""The declaration of a PTX instruction: PTX text with named operands becomes a Numba intrinsic and an entry here.

An instruction is a function of a chapter's file: its parameters are annotated with operand kinds (`operands.py`), its
docstring is its manual page, its body its meaning on the CPU. Called by a kernel that Numba compiles it emits inline
PTX; called by a kernel that is interpreted it runs its body.
"""

from __future__ import annotations

import dis
import functools
import inspect
import string
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.cuda.core.errors import NumbaTypeError
from numba.cuda.extending import infer
from numba.cuda.types import Function, float32, literal, none
from numba.cuda.typing.templates import infer_global, make_intrinsic_template

from .machine import is_running
from .operands import Emission, Operand, Refused
from .results import Nothing, Result, Scalar
from .types import literals_first

REGISTRY: dict[str, Instruction] = {}
"""Every declared instruction by its name, such as ``mbarrier.init``."""

THREADS = ("any", "one", "warp", "warp group")
PROXIES = ("", "generic", "async", "tensormap", "generic, async", "generic, tensormap")


class DeviceFunction:
    """A function that kernels call: `define` types and emits it when compiled, `meaning` executes it when interpreted.

    Parameters
    ----------
    meaning : function
        Its parameters are the function's, its docstring too.
    define : function
        Of the argument types by name; gives the signature's types and a code generator, as Numba's `intrinsic`.
    """

    def __init__(self, meaning: Callable, define: Callable) -> None:
        self.meaning = meaning
        self.emitted_from: tuple = (define,)  # all that the code emitted for it depends on
        chapter = meaning.__module__.rpartition(".")[2]
        functools.update_wrapper(self, meaning)
        self.name = f"{chapter}.{meaning.__name__}"
        self.signature = inspect.signature(meaning, eval_str=True)
        self.parameters = self.signature.parameters

        defaults = {n: _type_of(p.default) for n, p in self.parameters.items() if p.default is not p.empty}

        def definition(typingctx: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                given = self.bind(args, kwargs).arguments
                return define(typingctx, **{n: given.get(n, defaults.get(n)) for n in self.parameters})
            except Refused as error:
                raise NumbaTypeError(f"{self.name}: {error}") from None

        context = inspect.Parameter("typingctx", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        plain = [p.replace(annotation=p.empty) for p in self.parameters.values()]
        definition.__signature__ = inspect.Signature([context, *plain])
        template = make_intrinsic_template(self, definition, self.name, prefer_literal=True, kwargs={"target": "cuda"})
        infer(literals_first(template))
        infer_global(self, Function(template))

    @property
    def usage(self) -> str:
        """How it is called: its name and its parameters, with what they are unless given."""
        parameters = (p.replace(annotation=p.empty) for p in self.parameters.values())
        return f"{self.name}({', '.join(map(str, parameters))})"

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name. Raises `Refused` where they do not fit."""
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Refused(f"{error}; it is {self.usage}") from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_running():
            raise RuntimeError(f"{self.name} is a device function: a kernel calls it, compiled or interpreted")
        try:
            return self.meaning(*args, **kwargs)
        except Refused as error:
            raise TypeError(f"{self.name}: {error}") from None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __deepcopy__(self, memo: dict) -> DeviceFunction:
        return self  # Numba copies the statements that refer to it


def device_function(define: Callable) -> Callable[[Callable], DeviceFunction]:
    """Declare a function that is no single instruction, with `define` for Numba and the decorated body for the CPU."""
    return lambda meaning: DeviceFunction(meaning, define)


class Instruction(DeviceFunction):
    """One declared PTX instruction.

    Attributes
    ----------
    name : str
        Chapter and function, ``mbarrier.init``.
    text : str
        PTX with named operands.
    threads : {"any", "one", "warp", "warp group"}
        Which threads must execute it together.
    proxy : {"", "generic", "async", "tensormap", "generic, async", "generic, tensormap"}
        The memory proxies it acts through or orders.
    pure : str
        Why the statement needs no order: LLVM may merge, move or drop it. Empty: volatile and convergent.
    no_effect : str
        Why it does nothing on the CPU, where it does nothing.
    """

    def __init__(self, meaning: Callable, text: str, **properties: Any) -> None:
        self.text = text
        self.form: Callable[..., dict[str, Any]] = properties.pop("form")
        self.repeat: Callable[..., int] = properties.pop("repeat")
        self.threads, self.proxy = properties.pop("threads"), properties.pop("proxy")
        self.pure, self.no_effect = properties.pop("pure"), properties.pop("no_effect")
        super().__init__(meaning, self._define)
        returned = self.signature.return_annotation
        self.result = (
            Nothing()
            if returned in (None, inspect.Signature.empty)
            else returned
            if isinstance(returned, Result)
            else Scalar(returned)
        )
        self.operands: dict[str, Operand] = {name: p.annotation for name, p in self.parameters.items()}
        # without convergent LLVM duplicates a statement into branches, or sinks it there, away from the rest of a warp
        self.attributes = (("nounwind", "readnone") if self.pure else ()) + (
            () if self.pure and self.threads == "any" else ("convergent",)
        )
        self.emitted_from = (text, self.form, self.repeat, self.attributes, repr((self.operands, self.result)))
        self._check_declaration()

    def _check_declaration(self) -> None:
        before = REGISTRY.get(self.name)
        if before is not None and not _is_declared_again(before.meaning, self.meaning):
            raise TypeError(f"{self.name} is declared twice")
        for name, kind in self.operands.items():
            if not isinstance(kind, Operand):
                raise TypeError(f"{self.name}: the annotation of {name} must be an operand kind; got {kind!r}")
        placeholders = {field for _, field, _, _ in string.Formatter().parse(self.text) if field}
        written = {"result"} if self.result.in_text else set()
        if unknown := placeholders - set(self.operands) - written - set(getattr(self.form, "fields", ())):
            raise TypeError(f"{self.name}: no parameter for the placeholders {sorted(unknown)}")
        read = {name for name, kind in self.operands.items() if kind.in_text}
        if unused := (read | written) - placeholders:
            raise TypeError(f"{self.name}: no placeholder for {sorted(unused)}")
        if self.threads not in THREADS:
            raise TypeError(f"{self.name}: threads must be one of {THREADS}; got {self.threads!r}")
        if self.proxy not in PROXIES:
            raise TypeError(f"{self.name}: proxy must be one of {PROXIES}; got {self.proxy!r}")
        for name in ("pure", "no_effect"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{self.name}: {name} must be a string that says why; got {getattr(self, name)!r}")
        if not self.meaning.__doc__:
            raise TypeError(f"{self.name}: a docstring is missing")
        if not self.no_effect and _is_empty(self.meaning):
            raise TypeError(f"{self.name}: the body is missing; say no_effect=… where it means nothing on the CPU")

    def _define(self, typingctx: Any, **arguments: Any) -> Any:
        resolved = {}
        for name, kind in self.operands.items():
            try:
                resolved[name] = kind.resolve(arguments[name])
            except Refused as error:
                raise Refused(f"{name} {error}") from None
        fields = self.form(**resolved)
        signature = self.result.resolve(resolved)(*resolved.values())

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = None
            for step in range(self.repeat(**resolved)):
                value = self._emit(Emission(builder, context, resolved, step), fields, args)
            return value

        return signature, codegen

    def _emit(self, emission: Emission, fields: dict[str, Any], args: Any) -> Any:
        texts = dict(fields)
        texts["result"] = self.result.declare(emission)
        declared = {n: kind.declare(emission, emission.types[n]) for n, kind in self.operands.items()}
        for (name, kind), value in zip(self.operands.items(), args, strict=True):
            try:
                texts[name] = kind.lower(emission, emission.types[name], value, declared[name])
            except Refused as error:  # a constant that no type tells of
                raise NumbaTypeError(f"{self.name}: {name} {error}") from None
        written = [type_ for _, type_ in emission.outputs]
        returned = ir.VoidType() if not written else written[0] if len(written) == 1 else ir.LiteralStructType(written)
        constraints = [c for c, _ in emission.outputs] + [c for c, _ in emission.inputs]
        if not self.pure:
            constraints.append("~{memory}")
        values = [value for _, value in emission.inputs]
        type_ = ir.FunctionType(returned, [value.type for value in values])
        asm = ir.InlineAsm(type_, self.text.format(**texts), ",".join(constraints), side_effect=not self.pure)
        call = emission.builder.call(asm, values, attrs=self.attributes)
        registers = (
            [call] if len(written) == 1 else [emission.builder.extract_value(call, i) for i in range(len(written))]
        )
        return self.result.wrap(emission, registers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_running():
            return super().__call__()
        name, values = "", {}
        try:
            if kwargs or len(args) != len(self.operands):
                bound = self.bind(args, kwargs)
                bound.apply_defaults()
                args = bound.args
            for (name, kind), value in zip(self.operands.items(), args, strict=True):
                values[name] = kind.value(value)
            name = ""
            if self.form is not no_form:
                self.form(**values)
        except Refused as error:
            raise TypeError(f"{self.name}: {name}{' ' * bool(name)}{error}") from None
        return self.meaning(*values.values())


def _type_of(default: Any) -> Any:
    """The type of a parameter's default, for an argument that is left out."""
    if default is None:
        return none
    return float32 if isinstance(default, float) else literal(default)


def _is_declared_again(before: Callable, now: Callable) -> bool:
    """Whether a user's declaration replaces itself, as a notebook's cell that is run again does."""
    same = (before.__module__, before.__qualname__) == (now.__module__, now.__qualname__)
    return same and not now.__module__.startswith(f"{__package__}.")


def _is_empty(function: Callable) -> bool:
    """Whether a function does no more than return None."""
    steps = [step for step in dis.get_instructions(function) if step.opname not in ("RESUME", "RETURN_VALUE")]
    return len(steps) == 1 and steps[0].opname in ("LOAD_CONST", "RETURN_CONST") and steps[0].argval is None


def no_form(**operands: Any) -> dict[str, Any]:
    """The form of an instruction that has no further placeholders."""
    return {}


def ptx(
    text: str,
    *,
    threads: str,
    proxy: str = "",
    form: Callable[..., dict[str, Any]] = no_form,
    repeat: Callable[..., int] = lambda **types: 1,
    pure: str = "",
    no_effect: str = "",
) -> Callable[[Callable], Instruction]:
    """Declare a PTX instruction.

    Parameters
    ----------
    text : str
        PTX; ``{name}`` stands for a parameter, ``{result}`` for what is returned, ``{{`` for a brace.
    threads : {"any", "one", "warp", "warp group"}
        Which threads must execute it together.
    proxy : {"generic", "async", "tensormap", "generic, async", "generic, tensormap"}, optional
        The proxies through which it accesses memory, or which it orders.
    form : function of the operands, optional
        Of their types when compiled, of their values when interpreted. Gives further placeholders (listed in its
        attribute ``fields``), and refuses forms that do not exist.
    repeat : function of the operand types, optional
        How many statements one call is.
    pure : str, optional
        Why LLVM may merge, move or drop the statement.
    no_effect : str, optional
        Why it does nothing on the CPU.

    Returns
    -------
    decorator
        Of a function whose annotations are operand kinds and whose body is the meaning on the CPU.

    Raises
    ------
    TypeError
        For a placeholder without a parameter, a missing docstring, an empty body, a second declaration of a name. A
        module outside `hopper_numba.intrinsics` may declare its own function again, as a notebook does; the last one
        counts.
    """

    def declare(meaning: Callable) -> Instruction:
        instruction = Instruction(
            meaning, text, threads=threads, proxy=proxy, form=form, repeat=repeat, pure=pure, no_effect=no_effect
        )
        REGISTRY[instruction.name] = instruction
        return instruction

    return declare


def member(name: str, **words: Any) -> Callable[[Callable], Callable]:
    """Name one function that a family's generator makes, and fill in its docstring's placeholders.

    Parameters
    ----------
    name : str
        The function's.
    **words
        What each placeholder of the docstring stands for.
    """

    def rename(function: Callable) -> Callable:
        function.__name__ = function.__qualname__ = name
        # the interpreter's reports read a frame's code
        function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
        function.__doc__ = (function.__doc__ or "").format(**words)
        return function

    return rename
