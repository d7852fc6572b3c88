"""Calls of machine code by its address: so that a caller is compiled without what it calls being compiled once more.

Numba compiles into a function all that it calls.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from numba import typeof, types
from numba.core import cgutils

from .simd import I64, instruction


class There(NamedTuple):
    """Where machine code is, and what tells types of arguments apart that it takes."""

    address: int
    kinds: int


_known: dict[tuple[Any, type], There] = {}


def address_of(function: Any, like: Any, *arguments: Any) -> There:
    """Of the machine code of a compiled function, for arguments of these types, which follow from that of `like`.

    What the arguments say does not count.
    """
    key = function, type(like)
    if key not in _known:
        kinds = tuple(typeof(argument) for argument in (like, *arguments))
        function.compile(kinds)
        made = function.overloads[kinds]
        _known[key] = There(made.library.get_pointer_to_function(made.fndesc.llvm_func_name), _number(kinds))
    return _known[key]


def _number(kinds: Sequence[types.Type]) -> int:
    return zlib.crc32(str(tuple(kinds)).encode())


@instruction
def call_at(context: Any, function: Any, there: Any, arguments: Any) -> Any:
    """What a compiled function, which is there, makes of a tuple of arguments; TypeError if it takes other types."""
    kinds = tuple(arguments)
    returned = function.get_call_type(context, kinds, {}).return_type

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention, (address, takes) = context.call_conv, cgutils.unpack_tuple(builder, values[1])
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", takes, I64(_number(kinds)))):
            convention.return_user_exc(builder, TypeError, (f"{function.dispatcher} has no machine code of {kinds}",))
        code = builder.inttoptr(address, convention.get_function_type(returned, kinds).as_pointer())
        given = cgutils.unpack_tuple(builder, values[2])
        status, made = convention.call_function(builder, code, returned, kinds, given)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return made

    return returned(function, there, arguments), generate
