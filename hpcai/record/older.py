"""Results of older schemas: what later schemas added, so that results of older versions are read and verified.

A KEY that did not exist yet has its default, since a default does what was done before. A derived value that did not
exist yet is absent; the fields of records that may be absent have a default.
"""

from collections.abc import Mapping
from math import isclose
from typing import Any

from hpcai.inputfile.key import Key
from hpcai.inputfile.keys import keys_of
from hpcai.record.machine import TRAFFIC
from hpcai.record.plain import Json, digest
from hpcai.record.result import SCHEMA
from hpcai.workloads import registry

# Fields that a schema added, by their names.
ADDED_BY_4 = frozenset(
    {
        *("apc", "apc_gflop", "apc_hpcai500", "published"),
        *("highest_ops", "highest_ops_seconds", "ops_efficiency"),
        *("all_reduce", "sent", "gradient_cost"),
        *("variables", "source_sha256", "level"),
        *("loading", "loaded_samples", "loaded_bytes", "wait_seconds"),
        *("loaded_per_second", "loaded_bytes_per_second"),
    }
)
ADDED_BY_5 = frozenset(
    {
        *("energy", "mean_watts", "valid_flops_per_watt", "joules_per_sample", "joules_per_training"),
        *("models_per_minute", *TRAFFIC, "over_nodes", "further"),
        *("exchanged", "exchange_cost", "pipeline", "pipeline_cost", "evaluation_deviation"),
        *("stale", "still", "outside", "others", "clocks", "inside_share", "outside_share", "audits"),
        *("weights", "repeated"),
        *("wall", "second_clock", "accounting", "network_check"),
        *("weights_sha256", "parent_sha256", "history_sha256", "unverified", "resumed"),
        *("delivered", "checkpoints", "checkpoint", "interrupted", "lost_groups"),
        *("recounted_validations", "miscounted_validations", "recount"),
        *("interface", "address"),
        *("processor", "rank_bound", "bound", "first_seconds", "spot_residual", "spot_checks"),
        "custom_step",
    }
)
# Fields that results of a schema lack.
LACKING: Mapping[str, frozenset[str]] = {
    "hpcai-result/3": ADDED_BY_4 | ADDED_BY_5,
    "hpcai-result/4": ADDED_BY_5,
}
GPU_ENERGY = ("gpu_joules", "gpu_watts")  # fields that telemetry had: all GPUs of the job over the whole test
READ = (*LACKING, SCHEMA)
# What follows from rules that have changed: eligibility, and the score that searches are ranked by. Not compared.
JUDGED, BY_RULES = ("status", "reasons"), ("valid", "best")


def is_older(document: Json) -> bool:
    """Whether a later schema added something to the document's."""
    return document["schema"] in LACKING


def upgraded(document: Json) -> Json:
    """The document in today's schema; unchanged if it is in it."""
    if not is_older(document):
        return document
    try:
        return {
            **document,
            "schema": SCHEMA,
            "input": _input(document["input"]),
            "tests": [_with_path(_adapted(entry)) for entry in document["tests"]],
            "tables": [_adapted(entry) for entry in document["tables"]],
        }
    except (LookupError, TypeError, AttributeError):
        return {**document, "schema": SCHEMA}  # the loader says where it violates the records


def as_older(made: Json, stored: Json) -> Json:
    """A recomputed document, without what the stored one's schema lacks, and with the digests of the stored one."""
    lacking = LACKING[stored["schema"]]
    whole = {**_without(made, upgraded(stored), lacking), "schema": SCHEMA, "digest": digest(stored)}
    fingerprint = digest({name: value for name, value in stored.items() if name != "summary"})
    kept = {name: stored["summary"][name] for name in (*JUDGED, *BY_RULES) if name in whole["summary"]}
    return {
        **whole,
        "tests": [_as_judged(test, other) for test, other in zip(whole["tests"], stored["tests"], strict=False)],
        "summary": {**whole["summary"], "fingerprint": fingerprint, **kept},
    }


def _as_judged(made: Json, stored: Json) -> Json:
    return {**made, **{name: stored.get(name) for name in JUDGED if name in made}}


def _input(found: Json) -> Json:
    run = {**{key.name: {"value": _value(key, ""), "default": True} for key in keys_of("")}, **found["run"]}
    return {**found, "run": run, "sections": [_section(section) for section in found["sections"]]}


def _section(found: Json) -> Json:
    keys = _keys_of(found["name"])
    defaults = {key.name: {"values": [*key.default_in(found["name"])], "default": True} for key in keys}
    return {**found, "keys": {**defaults, **found["keys"]}}


def _with_settings(entry: Json) -> Json:
    section = entry["workload"]
    keys = (*keys_of(""), *_keys_of(section))
    defaults = {key.name: _value(key, section) for key in keys if key.default_in(section)}
    return {**entry, "settings": {**defaults, **entry["settings"]}}


def _adapted(entry: Json) -> Json:
    """The entry with every KEY, and without energy in its telemetry."""
    return {**_with_settings(entry), "telemetry": _sampled(entry["telemetry"])}


def _sampled(found: Json | None) -> Json | None:
    """Telemetry without the energy of the GPUs over the whole test; with it if its numbers contradict each other.

    The loader refuses it then. Its samples are as long as today's, without bytes per second.
    """
    if found is None or not _has_sound_energy(found):
        return found
    series = [[*sample, *[None] * len(TRAFFIC)] for sample in found["series"]]
    return {name: value for name, value in found.items() if name not in GPU_ENERGY} | {"series": series}


def _has_sound_energy(found: Json) -> bool:
    joules, watts = (found.get(name) for name in GPU_ENERGY)
    if joules is None or watts is None or not found["series"]:
        return joules is watts is None
    return joules >= 0 and isclose(joules, watts * found["series"][-1][0], rel_tol=1e-6)


def _with_path(entry: Json) -> Json:
    """The entry with the one way in which gradients were summed; what was sent was not measured."""
    raw, ranks = entry["raw"], entry["settings"].get("DEGREE", 1)
    if ranks == 1 or "backend" not in raw:
        return entry
    path = {"algorithm": "flat", "by": raw["backend"], "links": [{"link": "group", "ranks": ranks}], "compared": []}
    return {**entry, "raw": {"all_reduce": {**path, "ranks_per_node": None}, **raw}}


def _keys_of(section: str) -> tuple[Key, ...]:
    known = section in [workload.name for workload in registry.workloads()]
    return keys_of(section) if known else ()


def _value(key: Key, section: str) -> Any:
    """The default of a KEY as a case has it."""
    values = key.default_in(section)
    return [*values] if key.listed else values[0]


def _without(made: Any, stored: Any, lacking: frozenset[str]) -> Any:
    if isinstance(made, dict) and isinstance(stored, dict):
        kept = {name: value for name, value in made.items() if name in stored or name not in lacking}
        return {name: _without(value, stored.get(name), lacking) for name, value in kept.items()}
    if isinstance(made, list) and isinstance(stored, list) and len(made) == len(stored):
        return [_without(one, other, lacking) for one, other in zip(made, stored, strict=True)]
    return made
