"""What is printed of one test: HPL's header and row, then a line per check and per score, then notes."""

from collections.abc import Iterator
from typing import Any

from hpcai.report import memory, precision, roofline, telemetry, times, weather
from hpcai.report.text import NAME_WIDTH, printed, score, with_reasons
from hpcai.result.quality import NAMES

Json = dict[str, Any]

LINE = "=" * 80
DASHES = "-" * 80
SAMPLES = {"ensemble": "images", "weather": "frames"}
COLUMNS = "T/V                N    NB     P     Q               Time                 Gflops"


def block(test: Json) -> str:
    """One test: HPL's header and row, then a line per check and per score."""
    return head(test) + printed([*check_lines(test), *_score_lines(test), *_notes(test), ""])


def head(test: Json) -> str:
    """HPL's header and row."""
    return "\n".join([LINE, COLUMNS, DASHES, row(test), ""])


def row(test: Json) -> str:
    """The result row, in HPL's format; but from 10^11 samples on, N keeps a blank before it."""
    rate = f"{test['gflops']:19.4e}" if test["gflops"] >= 1 else f"{test['gflops']:19.6f}"
    grid = f"{test['nb']:5d} {test['p']:5d} {test['q']:5d}"
    return f"{test['tv']:<8} {test['n']:11d} {grid} {test['seconds']:18.2f}    {rate}"


def check_lines(test: Json) -> Iterator[str]:
    """A line per check, and whether the target was reached."""
    for check in test["checks"]:
        yield f"{score(check['name'], check['value'], 'n/a, no ceiling')} ...... {check['verdict']}"
    scores = test["scores"]
    verdict = "REACHED" if scores["reached"] else "MISSED"
    name = f"quality({NAMES[test['workload']].replace('-', '')})/target"
    yield f"{name:>{NAME_WIDTH}}= {scores['quality'] / scores['target']:16.7f} ...... {verdict}"


def _score_lines(test: Json) -> Iterator[str]:
    scores = test["scores"]
    yield score("Valid FLOPS in GFLOP/s", scores["valid_flops"] / 1e9)
    yield score(f"quality of the ensemble ({NAMES[test['workload']]})", scores["quality"])
    yield score("target", scores["target"])
    for name in ("mean", "min", "max", "best"):
        yield score(f"quality of the models, {name}", scores[f"member_{name}"])
    yield score("quality out of bag", scores["out_of_bag"], "n/a, one model" if test["p"] == 1 else "n/a, none left")
    yield score("time to quality, slowest model, s", scores["time_to_quality"], "not reached")
    yield score("time to quality, mean, s", scores["time_to_quality_mean"], "not reached")
    yield score("epochs to quality, slowest model", scores["epochs_to_quality"], "not reached")
    yield score("epochs to quality, mean", scores["epochs_to_quality_mean"], "not reached")
    yield score("parallel efficiency", scores["efficiency"])
    yield from precision.lines(test)
    yield from kernels_line(scores)
    yield score(f"{SAMPLES[test['workload']]}/s", scores["images_per_second"])
    yield from memory.lines(test)
    yield from telemetry.lines(test)
    yield from staging_line(scores)
    yield from weather.lines(test)
    yield from times.lines(test)
    yield from roofline.lines(test)


def kernels_line(scores: Json) -> Iterator[str]:
    """How much of a network is computed by kernels that are not the vendor's, and how fast a pass is by them."""
    if "kernels_ours" in scores:
        yield score("products of the layers by our kernels, share", scores["kernels_ours"]["directions"])
        yield score("batch norms by our kernels, share", scores["kernels_ours"]["normalisations"])
    if "kernels_speed" in scores:
        yield score("throughput by these kernels, of the vendor's", scores["kernels_speed"], "n/a, none chosen")


def staging_line(scores: Json) -> Iterator[str]:
    """How fast the data came to the nodes, if they did."""
    if "staging_rate" in scores:
        yield score("staging of data to the nodes, GB/s", scores["staging_rate"] / 1e9)


def data_notes(raw: Json) -> Iterator[str]:
    """What was trained on, and how it was divided."""
    data = raw["dataset"]
    samples = f"{data['training_samples']} + {data['validation_samples']} samples"
    yield f"Data    : {data['name']}, {samples}, sha256 {data['fingerprint']}"
    if "ceiling" in data:
        best = f"{data['ceiling']:.6f}, standard error {data['ceiling_error']:.6f}"
        yield f"Ceiling : {best}; the sha256 covers {_covered(raw)}"
    if copy := raw.get("staging"):
        left = "kept there" if copy["kept"] else "removed at the end"
        yield (
            f"Staging : {copy['bytes']} bytes copied, {copy['reused_bytes']} there already; "
            f"nodes: {copy['nodes']}; {left}"
        )
    yield f"Sharding: {raw['sharding']}"


def _covered(raw: Json) -> str:
    """What the fingerprint of generated data is of."""
    return "the formula and the events of a year" if "true_boxes" in raw else "the formula and 64 samples of each split"


def network_note(test: Json, what: str) -> str:
    """Which network, and the operations it was counted with."""
    settings, operations = test["settings"], test["operations"]
    own = "x".join(map(str, test["raw"]["dataset"]["shape"][1:]))
    side = own if test["workload"] == "weather" else settings["RESOLUTION"] or own
    return (
        f"Network : {what}{settings['NETWORK']} {settings['VARIANT']} at {side}, rule {operations['rule']}: "
        f"{operations['per_sample']} FLOP per sample, {operations['credited']} credited"
    )


def proof_notes(raw: Json) -> Iterator[str]:
    """Where the worst of the residuals and of the repeated steps were."""
    for measure in raw["residuals"]:
        yield f"Residual: worst {measure}: {raw['residuals'][measure]['where']}"
    if found := raw.get("own_kernels"):
        computed = " and ".join(found["computes"])
        yield f"Kernels : {computed} of a file, sha256 {found['sha256']}; all else is ours"
    if found := raw.get("beside"):
        yield (
            f"Beside  : furthest from the vendor's are gradients of {found['gradient']['where']} "
            f"and statistics of {found['statistics']['where']}"
        )
    for measure in ("deviation", "lost"):
        yield f"Audit   : {raw['audit']['steps']} steps, largest {measure}: {raw['audit'][measure]['where']}"


def _notes(test: Json) -> Iterator[str]:
    raw = test["raw"]
    yield from data_notes(raw)
    yield network_note(test, "")
    yield f"Executed: {_execution(raw['execution'])}"
    yield precision.note(test)
    yield (
        f"Steps   : {raw['steps']} in all{precision.skipped(raw)}, "
        f"{raw['model_steps_min']} to {raw['model_steps_max']} a model, "
        f"{raw['warmup_steps']} warm-up steps discarded, backend {raw['backend']}, "
        f"buckets of gradients: {raw['execution']['buckets']}"
    )
    yield from proof_notes(raw)
    yield times.note(test)
    yield telemetry.note(test)
    yield from roofline.notes(test)
    yield with_reasons(f"Status  : {test['status']}", test["reasons"])


def _execution(execution: Json) -> str:
    """How the network was executed, and what it took to get there."""
    text = str(execution["by"])
    if execution["graphs"]:
        text += (
            f", {execution['graphs']} graphs made in {execution['compile_seconds']:.1f} s before the clock started, "
            f"{execution['late_graphs']} after"
        )
    if execution["trials"]:
        text += "; tried: " + ", ".join(f"{name} {seconds:.4f} s" for name, seconds in execution["trials"].items())
    return text
