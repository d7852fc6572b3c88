"""The shipped input.dat, generated from the workloads' sections."""

from collections.abc import Mapping

from hpcai.inputfile.echo import setting
from hpcai.inputfile.key import Key, Value
from hpcai.inputfile.keys import keys_of, sections

HEADERS = (
    "HPCAI benchmark input file",
    "Shipped problem: ceilings, images by vendor and custom kernels, weather, a search; three minutes on 2 cores",
)


def shipped_text() -> str:
    """The shipped input.dat: every KEY of every section, with its values and what they may be."""
    lines = [*HEADERS, *_settings("", {})]
    for section in sections():
        for shipped in section.shipped:
            lines += ["", f"{f'[{section.name}]':<27} {shipped.remark or section.help}"]
            lines += _settings(section.name, shipped.settings)
    return "\n".join(lines) + "\n"


def _settings(section: str, given: Mapping[str, tuple[Value, ...]]) -> list[str]:
    return [setting(given.get(key.name, key.default_in(section)), key.name, _remark(key)) for key in keys_of(section)]


def _remark(key: Key) -> str:
    if key.kind in ("power", "limit"):
        return f"{key.help}: {key.allowed}"
    if key.choices[1:] and key.kind != "shapes":
        return f"{key.help}: {' | '.join(key.choices)}"
    return f"{key.help}; 0 = {key.zero}" if key.zero else key.help
