"""Calls of compiled functions by pointer, so that a caller does not compile its callee once more.

Numba inlines the compilation of every callee into its caller: a function that is called by name from three places is
compiled four times.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from numba import typeof, types
from numba.core import cgutils

from .simd import I64, instruction


class FunctionPointer(NamedTuple):
    """Address of machine code, and a checksum of its argument types."""

    address: int
    signature: int


_pointers: dict[tuple[Any, type], FunctionPointer] = {}


def function_pointer(function: Any, like: Any, *arguments: Any) -> FunctionPointer:
    """Pointer to the machine code of a compiled function, for arguments of these types.

    All types must follow from the type of `like`, which is the cache key. The values of the arguments do not matter.
    """
    key = function, type(like)
    if key not in _pointers:
        argument_types = tuple(typeof(argument) for argument in (like, *arguments))
        function.compile(argument_types)
        compiled = function.overloads[argument_types]
        _pointers[key] = FunctionPointer(
            compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name), _signature_id(argument_types)
        )
    return _pointers[key]


def _signature_id(argument_types: Sequence[types.Type]) -> int:
    return zlib.crc32(str(tuple(argument_types)).encode())


@instruction
def call_pointer(context: Any, function: Any, pointer: Any, arguments: Any) -> Any:
    """Call machine code with a tuple of arguments and return its result; TypeError if its argument types differ."""
    argument_types = tuple(arguments)
    returns = function.get_call_type(context, argument_types, {}).return_type

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention, (address, expected) = context.call_conv, cgutils.unpack_tuple(builder, values[1])
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", expected, I64(_signature_id(argument_types)))):
            convention.return_user_exc(
                builder, TypeError, (f"{function.dispatcher} has no machine code of {argument_types}",)
            )
        code = builder.inttoptr(address, convention.get_function_type(returns, argument_types).as_pointer())
        unpacked = cgutils.unpack_tuple(builder, values[2])
        status, compiled = convention.call_function(builder, code, returns, argument_types, unpacked)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return compiled

    return returns(function, pointer, arguments), generate
