"""The JSON schema of result.json (draft 2020-12), derived from the records of all workloads."""

import json

from msgspec import json as msgspec_json

from hpcai.record.plain import Json
from hpcai.record.result import SCHEMA, Result
from hpcai.workloads import registry


def schema() -> Json:
    """The schema as a JSON document: a result, whose tests are entries of the workloads."""
    parts = {workload.name: registry.part(workload.name, "record") for workload in registry.workloads()}
    entries = {name: part.ENTRY for name, part in parts.items()}
    stopped = [part.STOPPED for part in parts.values() if getattr(part, "STOPPED", None)]
    kinds = [Result, *entries.values(), *stopped]
    (whole, *others), definitions = msgspec_json.schema_components(kinds, ref_template="#/$defs/{name}")
    of_entries, of_stopped = others[: len(entries)], others[len(entries) :]
    rows = [each for each, name in zip(of_entries, entries, strict=True) if registry.workload(name).digit]
    tables = [each for each, name in zip(of_entries, entries, strict=True) if not registry.workload(name).digit]
    fields = definitions["Result"]["properties"]
    fields["tests"]["items"] = {"anyOf": rows}
    fields["tables"]["items"] = {"anyOf": tables}
    definitions["BrokenOff"]["properties"]["raw"]["anyOf"] = [*of_stopped, {"type": "null"}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"HPCAI bench result, {SCHEMA}",
        **whole,
        "$defs": definitions,
    }


def text() -> str:
    """The schema as it is printed."""
    return json.dumps(schema(), indent=1)
