"""Text in the cells of lists and tables: of strangers, and the name of a machine."""

from hpcai.inputfile.run_keys import UNNAMED
from hpcai.record.machine import Environment
from hpcai.record.result import Result

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # begin a formula in a spreadsheet
Value = str | int | float | None
MOST_TEXT = 200  # characters of a cell


def spreadsheet_safe(value: Value) -> Value:
    """The value of a cell; a text that a spreadsheet would compute gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def machine_name(environment: Environment) -> str:
    """Device and nodes."""
    device = environment.device if environment.accelerators else environment.processor
    return f"{cell(device)} x {environment.nodes} node{'s' * (environment.nodes != 1)}"


def system_name(result: Result) -> str:
    """SYSTEM of the input, if it names one, and the machine."""
    given = result.input.run.get("SYSTEM")  # results of older versions lack it
    return named(UNNAMED if given is None else cell(given.value), machine_name(result.environment))


def named(name: str, machine: str) -> str:
    """A machine with the name of its system, if it has one."""
    return machine if name == UNNAMED else cell(f"{name}, {machine}")


def cell(text: object, most: int = MOST_TEXT) -> str:
    """Text of a stranger in one line of printable characters, not longer than a cell."""
    found = str(text)[: most + 1]
    line = printable(found).strip()
    return line if len(line) <= most else f"{line[: most - 3]}..."


def printable(text: str) -> str:
    """Text in one line of printable characters."""
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)
