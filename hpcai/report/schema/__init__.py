"""The JSON schema of result.json (draft 2020-12); a test holds real results against it."""

import json

from hpcai.inputfile import all_keys, sections
from hpcai.report.schema.broken import BROKEN_OFF
from hpcai.report.schema.kinds import (
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    POSITIVE,
    SHA256,
    STATUS,
    TEXT,
    UTC,
    VALUES,
    Json,
    list_of,
    object_of,
    or_null,
)
from hpcai.report.schema.search import SEARCH
from hpcai.report.schema.tables import ROWS, TABLE
from hpcai.report.schema.test import TESTS
from hpcai.result import SCHEMA
from hpcai.result.repeat import QUANTITIES
from hpcai.result.summary import SEARCHED
from hpcai.result.tables import BUS, CEILINGS, FURTHER


def _section(name: str) -> Json:
    """A section of the input: every KEY it has, with its values."""
    keys = {
        key.name: object_of({"values": list_of(VALUES.get(key.kind, TEXT)), "default": FLAG})
        for key in all_keys()
        if name in key.sections
    }
    return object_of({"name": {"const": name}, "keys": object_of(keys)})


OF_ROW = {
    "index": COUNT,
    "gflops": NUMBER,
    "quality": NUMBER,
    "target": NUMBER,
    "P": COUNT,
    "Q": COUNT,
    "time": NUMBER,
}
OF_WEATHER = ("weather_valid_gflops", "weather_quality", "weather_gflops")
OF_SEARCH = dict.fromkeys(SEARCHED, NUMBER)
WEATHER = object_of({"weather_index": COUNT, **dict.fromkeys(OF_WEATHER, NUMBER)})
BEST = object_of({**OF_ROW, "valid_gflops": NUMBER})
BEST_SEARCH = object_of({**OF_ROW, **OF_SEARCH})
SPREAD = or_null(
    object_of({"count": COUNT, "mean": NUMBER, "median": NUMBER, "min": NUMBER, "max": NUMBER, "cv": or_null(NUMBER)})
)
REPEATABILITY = {
    "anyOf": [
        object_of({"tests": list_of(COUNT), **dict.fromkeys(names, SPREAD)})
        for names in dict.fromkeys(QUANTITIES.values())
    ]
}
SUMMARY = object_of(
    {
        "complete": FLAG,
        "planned": COUNT,
        "tests": COUNT,
        "passed": COUNT,
        "failed": COUNT,
        "skipped": COUNT,
        "valid": STATUS,
        "reasons": list_of(TEXT),
        "best": {"anyOf": [BEST, BEST_SEARCH, {"type": "null"}]},
        "ceilings": object_of(
            dict.fromkeys((*CEILINGS, BUS), or_null(NUMBER)), dict.fromkeys(FURTHER, or_null(NUMBER))
        ),
        "repeatability": list_of(REPEATABILITY),
        "fingerprint": SHA256,
    },
    {"weather": WEATHER, "search": object_of({"search_index": COUNT, **OF_SEARCH})},
)
RANK = object_of(
    {"rank": COUNT, "groups": list_of(or_null(COUNT)), "host": NAME, "device": NAME, "cpus": NAME, "threads": POSITIVE}
)
INPUT = object_of(
    {
        "name": TEXT,
        "digest": SHA256,
        "headers": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2},
        "text": TEXT,
        "overrides": list_of(TEXT),
        "run": object_of(
            {
                key.name: object_of({"value": VALUES.get(key.kind, TEXT), "default": FLAG})
                for key in all_keys()
                if not key.sections
            }
        ),
        "sections": {"type": "array", "items": {"anyOf": [_section(workload.name) for workload in sections()]}},
    }
)
ENVIRONMENT = object_of(
    {
        "ranks": POSITIVE,
        "nodes": POSITIVE,
        "accelerators": COUNT,
        "processor": NAME,
        "cpus": POSITIVE,
        "memory_bytes": POSITIVE,
        "device": NAME,
        "system": NAME,
        "python": NAME,
        "mpi": NAME,
        "packages": {"type": "object", "additionalProperties": NAME},
        "grids": list_of(NAME),
        "idle": list_of(TEXT),
        "warnings": list_of(TEXT),
    }
)


def schema() -> Json:
    """The schema as a JSON document."""
    fields = {
        "schema": {"const": SCHEMA},
        "version": NAME,
        "date": UTC,
        "input": INPUT,
        "environment": ENVIRONMENT,
        "ranks": list_of(RANK),
        "tests": list_of({"anyOf": [*TESTS, SEARCH]}),
        "tables": list_of(TABLE),
        **ROWS,
        "broken_off": or_null(BROKEN_OFF),
        "summary": SUMMARY,
        "digest": SHA256,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "HPCAI bench result",
        **object_of(fields),
    }


def text() -> str:
    """The schema as it is printed."""
    return json.dumps(schema(), indent=1)
