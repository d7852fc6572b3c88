"""Overrides from the command line, `--set [SECTION.]KEY=VALUE`."""

from collections.abc import Sequence

from hpcai.inputfile.blocks import Block, Entry, key_named
from hpcai.inputfile.key import Key
from hpcai.inputfile.keys import keys_by_name, section_names
from hpcai.inputfile.lines import clean, words_of
from hpcai.inputfile.mistakes import Mistakes, Place, shown
from hpcai.inputfile.values import near_miss, read

_FORM = "allowed: [SECTION.]KEY=VALUE"


def override(blocks: Sequence[Block], options: Sequence[str], mistakes: Mistakes) -> None:
    """Replace settings of the file by the options, in order."""
    for option in options:
        place = Place(option, option=True)
        text = clean(place, mistakes)
        target, equals, value = text.partition("=")
        section, dot, name = target.strip(" \t").rpartition(".")
        if not equals:
            mistakes.add(place, f"there is no = in it; {_FORM}")
        elif key := _key(name, place, mistakes):
            targets = _targets(blocks, key, section.lower() if dot else None, place, mistakes)
            _replace(targets, key, value, place, mistakes)


def _key(name: str, place: Place, mistakes: Mistakes) -> Key | None:
    key = key_named(name)
    if key is None:
        mistakes.add(place, f"KEY {shown(name, 40)} is unknown{near_miss([name], list(keys_by_name()))}; {_FORM}")
    return key


def _targets(blocks: Sequence[Block], key: Key, section: str | None, place: Place, mistakes: Mistakes) -> list[Block]:
    """The blocks to which an option applies; none, with a recorded mistake, if it applies to none."""
    homes = key.sections or ("",)
    if section is not None and section not in homes:
        what = f"section [{shown(section, 40)}] {'has no ' + key.name if section in section_names() else 'is unknown'}"
        home = " ".join(f"[{name}]" for name in key.sections) or f"{key.name}=VALUE, a setting of the run"
        mistakes.add(place, f"{what}{near_miss([section], section_names())}; allowed: {home}")
        return []
    found = [block for block in blocks if block.name in homes and section in (None, block.name)]
    if not found:
        mistakes.add(place, _nowhere(blocks, key, section))
    return found


def _nowhere(blocks: Sequence[Block], key: Key, section: str | None) -> str:
    """Why an option applies to no block of the file."""
    having = " ".join(f"[{block.name}]" for block in blocks if block.name in key.sections)
    if section and having:
        return f"the file has no section [{section}]; it has {key.name} in {having}"
    return f"no section of the file has {key.name}; allowed: where there is [{'] ['.join(key.sections)}]"


def _replace(blocks: Sequence[Block], key: Key, value: str, place: Place, mistakes: Mistakes) -> None:
    """Replace the values of a KEY; in sections with differing choices only where the value is legal."""
    words = words_of(value.replace(",", " "))
    found = [(block, *read(key.of(block.name), words)) for block in blocks]
    legal = [(block, values) for block, values, wrong in found if not wrong]
    for block, values in legal:
        block.entries[key.name] = Entry(place, values)
    if found and not legal:
        for message in dict.fromkeys(message for *_, wrong in found for message in wrong):
            mistakes.add(place, message)
        for block, *_ in found:
            block.entries[key.name] = Entry(place)
