"""Cycles per second of a core: a chain of dependent register-register operations, one cycle each.

A step is x = (x ^ FLIPPED) + added, modulo 2^64. To exchange the highest bit is to add 2^63, so the result of any
number of steps is known. Operands are in registers: Golden Cove and later cores remove additions of constants when
registers are renamed.
Source of the latencies (1 cycle for xor and add of registers on every listed processor): Fog, Instruction tables;
Arm, Software optimization guides.
"""

NAME = "cycles"
FLIPPED = 2**63
STEP_CYCLES = 2
UNROLLED = 64  # steps of an iteration: the loop's counter runs beside the chain
ITERATIONS = 2**10  # 131,072 cycles, some 40 us
BITS = 64
