"""LAPACK's routines, during which other threads run.

SciPy's Python wrappers of LAPACK hold the interpreter's lock until the routine is done, and with
it everything else in the process: a curator that decomposes 4,096 columns would answer nobody for
half a minute. Here the very same routines are taken from the C interface that SciPy documents for
Cython, and called by `ctypes`, which lets go of the lock. What an argument has to be is read off
the signature that SciPy states for each.

Reference: SciPy, scipy.linalg.cython_lapack; E. Anderson et al., LAPACK Users' Guide, 1999.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import cython_lapack

_DOUBLE = "__pyx_t_5scipy_6linalg_13cython_lapack_d *"
_KINDS: dict[str, Any] = {
    "char *": ctypes.c_char_p,
    "int *": ctypes.POINTER(ctypes.c_int),
    _DOUBLE: ctypes.c_void_p,
}


def call(name: str, *arguments: str | int | NDArray[Any]) -> None:
    """Run a routine.

    Parameters
    ----------
    name
        In lower case, such as ``dsytrd``.
    arguments
        All but the last of the routine, which says whether it failed: text for a CHARACTER, an
        int for an INTEGER that is only read, and a NumPy array for an array or whatever is written
        (float64, or int32 for integers), from its first element on.

    Raises
    ------
    LinAlgError
        The routine reports a fault.
    TypeError
        An argument is not what the routine takes.
    """
    routine, kinds = _routine(name)
    if len(arguments) + 1 != len(kinds):
        message = f"{name} takes {len(kinds) - 1} arguments and its fault, not {len(arguments)}"
        raise TypeError(message)
    fault = ctypes.c_int(0)
    given = [
        _as(kind, argument, name) for kind, argument in zip(kinds[:-1], arguments, strict=True)
    ]
    routine(*given, ctypes.byref(fault))
    if fault.value:
        message = f"LAPACK's {name} reports {fault.value}"
        raise linalg.LinAlgError(message)


def _as(kind: str, argument: str | int | NDArray[Any], name: str) -> Any:
    if isinstance(argument, np.ndarray):
        wanted = {_DOUBLE: np.float64, "int *": np.int32}.get(kind)
        if argument.dtype == wanted and argument.flags.behaved:
            return argument.ctypes.data_as(_KINDS[kind])
    elif isinstance(argument, str) and kind == "char *":
        return argument.encode()
    elif isinstance(argument, int) and kind == "int *":
        return ctypes.byref(ctypes.c_int(argument))
    message = f"{name} does not take a {type(argument).__name__} where it has '{kind}'"
    raise TypeError(message)


@cache
def _routine(name: str) -> tuple[Any, tuple[str, ...]]:
    """The function, and what SciPy says of its parameters."""
    capsules: Mapping[str, Any] = cython_lapack.__pyx_capi__
    capsule = capsules[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    kinds = tuple(signature.decode().removeprefix("void (").removesuffix(")").split(", "))
    made = ctypes.CFUNCTYPE(None, *(_KINDS[kind] for kind in kinds))
    return made(pointer_of(capsule, signature)), kinds
