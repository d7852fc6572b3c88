"""The JSON schema of result.json (draft 2020-12), derived from the records of all workloads."""

import json
from typing import Any

from msgspec import json as msgspec_json

from hpcai.record import keys
from hpcai.record.plain import Json
from hpcai.record.result import SCHEMA, Result
from hpcai.workloads import registry


def schema() -> Json:
    """The schema as a JSON document: a result, whose tests are entries of the workloads; every field is written."""
    names = [workload.name for workload in registry.workloads()]
    rows = [name for name in names if registry.workload(name).digit]
    refs, definitions = _components(names, rows)
    for definition in definitions.values():
        definition["required"] = list(definition["properties"])
        for field in definition["properties"].values():
            field.pop("default", None)
    _bind_result(definitions, refs, names, rows)
    _bind_keys(definitions, refs, names, rows)
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"HPCAI bench result, {SCHEMA}"}
    return {**described, **refs[Result], "$defs": definitions}


def _components(names: list[str], rows: list[str]) -> tuple[dict[Any, Json], dict[str, Json]]:
    """References by type, and the definitions that they name."""
    kinds = [Result, *map(_entry, names), *_stopped(names), keys.run_values()]
    kinds += [make(name) for make in (keys.settings_of, keys.section_values) for name in names]
    kinds += map(keys.figures_of, rows)
    found, definitions = msgspec_json.schema_components(kinds, ref_template="#/$defs/{name}")
    return dict(zip(kinds, found, strict=True)), definitions


def _entry(name: str) -> Any:
    return registry.part(name, "record").ENTRY


def _stopped(names: list[str]) -> list[Any]:
    found = [getattr(registry.part(name, "record"), "STOPPED", None) for name in names]
    return [kind for kind in found if kind]


def _bind_result(definitions: dict[str, Json], refs: dict[Any, Json], names: list[str], rows: list[str]) -> None:
    """Tests and tables are entries of the workloads; a result that is written has an end."""
    fields = definitions["Result"]["properties"]
    fields["tests"]["items"] = {"anyOf": [refs[_entry(name)] for name in rows]}
    fields["tables"]["items"] = {"anyOf": [refs[_entry(name)] for name in names if name not in rows]}
    for name in ("summary", "digest"):
        fields[name] |= fields[name].pop("anyOf")[0]
    raw = definitions["BrokenOff"]["properties"]["raw"]
    raw["anyOf"] = [*(refs[kind] for kind in _stopped(names)), {"type": "null"}]


def _bind_keys(definitions: dict[str, Json], refs: dict[Any, Json], names: list[str], rows: list[str]) -> None:
    """What is stored by KEY is of the section's KEYs; the best test has its workload's figures."""
    for name in names:
        definitions[_entry(name).__name__]["properties"]["settings"] |= refs[keys.settings_of(name)]
        del definitions[_entry(name).__name__]["properties"]["settings"]["additionalProperties"]
    of_input, best = definitions["Input"]["properties"], definitions["Best"]["properties"]
    of_input["run"] = refs[keys.run_values()]
    of_input["sections"]["items"] = {"anyOf": [refs[keys.section_values(name)] for name in names]}
    best["figures"] = {"anyOf": [refs[keys.figures_of(name)] for name in rows]}
    for replaced in ("Row", "Table", "SectionValues", "KeyValues", "RunValue"):
        del definitions[replaced]


def text() -> str:
    """The schema as it is printed."""
    return json.dumps(schema(), indent=1)
