"""A page with rows of every kind: sound, with power, search, ceilings, report alone, unfit, and hostile ones."""

import json
from pathlib import Path

from msgspec import structs
from ranking_files import listed, of_site, report_only, with_power, written
from result_with_tables import result_with_tables
from result_with_weather import mixed_result

from hpcai.record.entry import Row
from hpcai.record.plain import text
from hpcai.record.result import Result
from hpcai.verification import verify

SCRIPT, IMAGE = "<script>document.title='x'</script>", '"><img src=x onerror=document.title=1>'
HOSTILE = SCRIPT + IMAGE
MANY = "V3/fp32"  # the list with most rows
SITES = {"Alpha": 3, "Beta": 12, "Gamma": 0}  # and how many more images are right


def on_host(result: Result, name: str) -> Result:
    """The result of ranks on hosts of this name."""
    ranks = tuple(structs.replace(rank, host=name) for rank in result.ranks)
    tests = tuple(_slowest_on(test, name) for test in result.tests)
    machine = structs.replace(result.environment, processor=name, system=name, warnings=(name,))
    return verify.rebuilt(structs.replace(result, ranks=ranks, environment=machine, tests=tests))


def _slowest_on(test: Row, host: str) -> Row:
    """The test, whose slowest rank was on this host."""
    busy = structs.replace(test.raw.busy_seconds, slowest_host=host)
    return structs.replace(test, raw=structs.replace(test.raw, busy_seconds=busy))


def page(folder: Path) -> Path:
    """The page of results in this folder, some with names that would do harm if they were not escaped."""
    runs = folder / "runs"
    for site, more in SITES.items():
        written(runs / site, of_site(site, more=more))
    written(runs / "hostile <img src=x onerror=alert(1)>", on_host(of_site(HOSTILE), HOSTILE))
    written(runs / "power", with_power(of_site("Metered", ("ENERGY=meter:power.csv",)), 250.0))
    written(runs / "mixed", mixed_result())
    (runs / "tables").mkdir()
    (runs / "tables/result.json").write_text(text(result_with_tables()), "utf-8")
    report_only(runs / "report", of_site("Printed", more=5))
    tampered = written(runs / "tampered", of_site("Tampered")) / "result.json"
    document = json.loads(tampered.read_text("utf-8"))
    document["summary"]["reasons"][0] = HOSTILE
    tampered.write_text(json.dumps(document), "utf-8")
    made = folder / "lists.html"
    assert listed(runs, "--html", made, "--jobs", 2) == 0
    return made
