"""`math` as interpreted kernels call it: infinities and NaN where Python raises, in the types that Numba gives.

The functions that Numba has for floats are NumPy's, in float64, rounded to the type of the arguments where all of them
are narrower. Everything else is `math`'s own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

UNARY = {
    **{name: getattr(np, f"arc{name[1:]}") for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")},
    **{name: getattr(np, name) for name in ("ceil", "cos", "cosh", "degrees", "exp", "exp2", "expm1", "fabs", "floor")},
    **{name: getattr(np, name) for name in ("log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh")},
    **{name: getattr(np, name) for name in ("modf", "trunc")},
}
BINARY = {"atan2": np.arctan2, "copysign": np.copysign, "fmod": np.fmod, "hypot": np.hypot, "pow": np.power}


def _narrow(args: tuple) -> Any:
    """The type of the result: float64 unless all arguments are NumPy's of a narrower one."""
    if all(isinstance(arg, np.floating) for arg in args):
        return np.result_type(*args).type
    return np.float64


def _ieee(name: str, function: Callable) -> Callable:
    """A function of floats, as NumPy computes it."""

    def call(*args: Any) -> Any:
        result = function(*[np.float64(arg) for arg in args])
        type_ = _narrow(args)
        return tuple(type_(part) for part in result) if isinstance(result, tuple) else type_(result)

    call.__name__ = name
    return call


def _log(value: Any, base: Any = None) -> Any:
    logarithm = np.log(np.float64(value))
    return _narrow((value,))(logarithm) if base is None else logarithm / np.log(np.float64(base))


def _gamma(name: str) -> Callable:
    """``gamma`` or ``lgamma``, which NumPy lacks, with C's values at the poles and beyond the range."""
    function = getattr(math, name)

    def call(value: Any) -> Any:
        number = float(value)
        try:
            result = function(number)
        except OverflowError:
            result = math.inf
        except ValueError:
            # C: lgamma is infinite at every pole, gamma only at 0, with the sign of that
            result = math.inf if name == "lgamma" else math.copysign(math.inf, number) if number == 0 else math.nan
        return _narrow((value,))(result)

    call.__name__ = name
    return call


def _ldexp(value: Any, exponent: Any) -> Any:
    # beyond these everything is infinite or zero, and C's int is narrow
    return _narrow((value,))(np.ldexp(np.float64(value), max(-5000, min(5000, int(exponent)))))


def _remainder(value: Any, divisor: Any) -> Any:
    try:
        result = math.remainder(value, divisor)
    except ValueError:
        result = math.nan
    return _narrow((value, divisor))(result)


FUNCTIONS: dict[str, Callable] = {
    **{name: _ieee(name, function) for name, function in (UNARY | BINARY).items()},
    **{"log": _log, "gamma": _gamma("gamma"), "lgamma": _gamma("lgamma"), "ldexp": _ldexp, "remainder": _remainder},
}


class Mathematics:
    """The stand-in of the module."""

    def __init__(self) -> None:
        vars(self).update({name: value for name, value in vars(math).items() if not name.startswith("__")})
        vars(self).update({name: function for name, function in FUNCTIONS.items() if hasattr(math, name)})

    def __repr__(self) -> str:
        return repr(math)


MATHEMATICS = Mathematics()


@functools.cache
def by_identity() -> dict[int, Callable]:
    """The stand-ins of functions that are imported by their names."""
    return {id(getattr(math, name)): function for name, function in FUNCTIONS.items() if hasattr(math, name)}
