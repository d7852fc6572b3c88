"""Parallel loop on torch's OpenMP threads, called from compiled code.

A second pool would spin on the cores that torch computes on. Numba's OpenMP layer needs a library that not every system
has, and its workqueue layer takes twice as long for a training step of resnet20.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from .simd import I8, I32, I64, instruction

REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # type of the function that each thread of a parallel region runs
# Names in machine code, and the OpenMP functions. GOMP_parallel is the GNU entry point, which LLVM's and Intel's
# runtimes export as well.
NAMES = {
    "hpcai_parallel": "GOMP_parallel",
    "hpcai_parallel_thread": "omp_get_thread_num",
    "hpcai_parallel_threads": "omp_get_num_threads",
}


@ctypes.CFUNCTYPE(None, REGION, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
def _serial_region(region: Callable[[Any], None], packed: Any, _threads: int, _flags: int) -> None:
    region(packed)


_thread_0, _one_thread = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0), ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
SERIAL = (_serial_region, _thread_0, _one_thread)  # for a torch without OpenMP


# Search order of torch itself: libraries that are loaded already, then those that torch ships.
LIBRARIES = (None, torch._C.__file__)


def openmp_functions(libraries: Sequence[str | None]) -> tuple[Any, ...]:
    """The OpenMP functions of NAMES from the first library that has them, else SERIAL."""
    for library in libraries:
        try:
            opened = ctypes.CDLL(library)
            return tuple(getattr(opened, name) for name in NAMES.values())
        except (OSError, AttributeError):
            continue
    return SERIAL


for _name, _function in zip(NAMES, openmp_functions(LIBRARIES), strict=True):
    binding.add_symbol(_name, ctypes.cast(_function, ctypes.c_void_p).value)


@instruction
def parallel_for(context: Any, function: Any, iterations: Any, arguments: Any) -> Any:
    """Call a compiled function for every iteration with a tuple of arguments; RuntimeError if an iteration fails."""
    argument_types = (types.intp, *map(types.unliteral, arguments))
    function.get_call_type(context, argument_types, {})

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
        _, iterations, packed = values
        shared = cgutils.alloca_once(builder, ir.LiteralStructType([I64, I64, packed.type]))
        for place, value in enumerate((iterations, I64(0), packed)):
            builder.store(value, _field(builder, shared, place))
        region = _region(
            context, builder.module, function.dispatcher.overloads[argument_types], argument_types, shared.type
        )
        argument = builder.bitcast(shared, I8.as_pointer())
        fork = _external(builder, "hpcai_parallel", ir.VoidType(), [region.type, argument.type, I32, I32])
        builder.call(fork, [region, argument, builder.trunc(iterations, I32), I32(0)])
        failed = builder.load(_field(builder, shared, 1))
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", failed, I64(0))):
            message = f"{function.dispatcher.py_func.__name__} failed in a thread"
            context.call_conv.return_user_exc(builder, RuntimeError, (message,))
        return context.get_dummy_value()

    return types.void(function, types.intp, arguments), generate


@instruction
def thread_number(context: Any) -> Any:
    """The number of this thread in the parallel loop; 0 outside."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.sext(builder.call(_external(builder, "hpcai_parallel_thread", I32, []), []), I64)

    return types.intp(), generate


def _region(
    context: Any, module: ir.Module, compiled: Any, argument_types: tuple[Any, ...], shared_type: Any
) -> ir.Function:
    """The function that each thread runs: every `threads`-th iteration."""
    context.active_code_library.add_linking_library(compiled.library)
    region = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [I8.as_pointer()]), module.get_unique_name("iterations")
    )
    region.linkage = "internal"
    builder = ir.IRBuilder(region.append_basic_block())
    body, shared = context.declare_function(module, compiled.fndesc), builder.bitcast(region.args[0], shared_type)
    iterations, packed = (builder.load(_field(builder, shared, place)) for place in (0, 2))
    thread, threads = (builder.sext(builder.call(_external(builder, f"hpcai_parallel_{name}", I32, []), []), I64)
                 for name in ("thread", "threads"))
    with cgutils.for_range_slice(builder, thread, iterations, threads, I64, inc=True) as (iteration, _):
        call_arguments = [iteration, *cgutils.unpack_tuple(builder, packed)]
        status, _ = context.call_conv.call_function(
            builder, body, compiled.signature.return_type, argument_types, call_arguments
        )
        with builder.if_then(status.is_error):
            builder.store(I64(1), _field(builder, shared, 1))
    builder.ret_void()
    return region


def _field(builder: ir.IRBuilder, shared: Any, place: int) -> Any:
    return builder.gep(shared, [I32(0), I32(place)])


def _external(builder: ir.IRBuilder, name: str, returns: Any, parameters: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(returns, parameters), name)
