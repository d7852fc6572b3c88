"""Turns of a loop, each by a thread of its own: of torch's pool, which is there and awake in any case.

A pool of our own would wait for its next loop on the processors that torch computes on. Numba's is one, made of a
library that not every system has; the one that it has for others takes twice as long for a step of resnet20.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from .simd import I8, I32, I64, instruction

LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # what the threads of a team call, with what it was given
# OpenMP's functions by the names that machine code has for them, the first one of GNU's, which others' libraries have
NAMES = {"hpcai_team": "GOMP_parallel", "hpcai_team_own": "omp_get_thread_num", "hpcai_team_all": "omp_get_num_threads"}


@ctypes.CFUNCTYPE(None, LOOP, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
def _by_one(loop: Callable[[Any], None], given: Any, _threads: int, _flags: int) -> None:
    loop(given)


_none, _one = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0), ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
ALONE = (_by_one, _none, _one)  # where torch has no OpenMP


# Where torch finds them as well: in what was loaded before everything else, then in what it comes with.
LIBRARIES = (None, torch._C.__file__)


def found(libraries: Sequence[str | None]) -> tuple[Any, ...]:
    """OpenMP's functions in the first library that has them, else ALONE."""
    for library in libraries:
        try:
            there = ctypes.CDLL(library)
            return tuple(getattr(there, name) for name in NAMES.values())
        except (OSError, AttributeError):
            continue
    return ALONE


for _name, _function in zip(NAMES, found(LIBRARIES), strict=True):
    binding.add_symbol(_name, ctypes.cast(_function, ctypes.c_void_p).value)


@instruction
def in_team(context: Any, function: Any, turns: Any, arguments: Any) -> Any:
    """Call a compiled function with every turn below `turns` and a tuple of arguments; RuntimeError where one fails."""
    kinds = (types.intp, *map(types.unliteral, arguments))
    function.get_call_type(context, kinds, {})

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
        _, turns, given = values
        task = cgutils.alloca_once(builder, ir.LiteralStructType([I64, I64, given.type]))
        for place, value in enumerate((turns, I64(0), given)):
            builder.store(value, _part(builder, task, place))
        loop = _loop(context, builder.module, function.dispatcher.overloads[kinds], kinds, task.type)
        handed = builder.bitcast(task, I8.as_pointer())
        start = _declared(builder, "hpcai_team", ir.VoidType(), [loop.type, handed.type, I32, I32])
        builder.call(start, [loop, handed, builder.trunc(turns, I32), I32(0)])
        failed = builder.load(_part(builder, task, 1))
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", failed, I64(0))):
            said = f"{function.dispatcher.py_func.__name__} failed in a thread"
            context.call_conv.return_user_exc(builder, RuntimeError, (said,))
        return context.get_dummy_value()

    return types.void(function, types.intp, arguments), generate


def _loop(context: Any, module: ir.Module, made: Any, kinds: tuple[Any, ...], task_type: Any) -> ir.Function:
    """What each thread calls: every turn of its own, of as many threads as there are."""
    context.active_code_library.add_linking_library(made.library)
    loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [I8.as_pointer()]), module.get_unique_name("turns"))
    loop.linkage = "internal"
    builder = ir.IRBuilder(loop.append_basic_block())
    body, task = context.declare_function(module, made.fndesc), builder.bitcast(loop.args[0], task_type)
    turns, given = (builder.load(_part(builder, task, place)) for place in (0, 2))
    own, all_ = (builder.sext(builder.call(_declared(builder, f"hpcai_team_{name}", I32, []), []), I64)
                 for name in ("own", "all"))
    with cgutils.for_range_slice(builder, own, turns, all_, I64, inc=True) as (turn, _):
        passed = [turn, *cgutils.unpack_tuple(builder, given)]
        status, _ = context.call_conv.call_function(builder, body, made.signature.return_type, kinds, passed)
        with builder.if_then(status.is_error):
            builder.store(I64(1), _part(builder, task, 1))
    builder.ret_void()
    return loop


def _part(builder: ir.IRBuilder, task: Any, place: int) -> Any:
    return builder.gep(task, [I32(0), I32(place)])


def _declared(builder: ir.IRBuilder, name: str, returned: Any, takes: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(returned, takes), name)
