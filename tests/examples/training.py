"""Entries of trainings: the stored ones, adapted to other settings and data, so that they fulfil every claim."""

from typing import Any

from msgspec import convert
from sample_records import altered, plain
from small_run import GOLDEN

from examples.delivered import with_delivered
from hpcai.claims.kernel_choice_claims import one_kernel_sites
from hpcai.claims.shards import left_out, shards_of, trained
from hpcai.data.audit_draws import drawn_steps
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.inputfile import Case
from hpcai.opcount.products import layers_of
from hpcai.record.dataset import Dataset
from hpcai.record.loading import load
from hpcai.record.preflight import Backward, Forward, KernelChoice, TimedNormalisation, TimedProduct, WholeStep
from hpcai.record.result import Result
from hpcai.record.training import TrainingRaw, TrainingRow
from hpcai.results import kernel_choice as rule
from hpcai.results.alterations import Alteration, changed, together
from hpcai.results.claim import Subject, violated
from hpcai.results.gradient_cost import needed_bytes
from hpcai.results.measured import Before, Measured
from hpcai.results.row import graph_of, per_sample
from hpcai.workloads.registry import part

LAYER = {"where": "stem_conv", "deviation": 1e-4, "rounding": 1e-4, "norm": 1.0}
COMPARISON = {
    "losses": {"custom": [2.0, 1.5, 1.2, 1.1], "vendor": [2.0, 1.5, 1.2, 1.10001], "rounding": 1e-5},
    "evaluated": {"custom": [0.9], "vendor": [0.90001], "rounding": 1e-5},
    "gradient": LAYER,
    "statistics": LAYER | {"where": "stem_norm"},
    "custom_seconds": 0.02,
    "vendor_seconds": 0.015,
}
COMPARED = together(
    changed("raw.preparation.vendor_comparison", COMPARISON),
    changed("raw.phases.vendor_comparison", 0.05),
)
PROBED = together(
    changed("raw.preparation.probe", {"fp32_seconds": 0.1, "seconds": 0.2, "converted": False}),
    changed("raw.phases.probe", 1.0),
)
STAGED = together(
    changed("raw.staging", {"bytes": 800, "reused_bytes": 0, "nodes": 1, "seconds": 0.5, "kept": False}),
    changed("raw.phases.staging", 0.5),
    changed("memory.data.data_bytes", 0),
)


def stored(workload: str) -> list[Subject]:
    """The stored tests of a workload, two grids."""
    own = GOLDEN / workload
    subjects = subjects_of(load((own if own.is_dir() else GOLDEN) / "result.json"))
    fitting = together(with_loading, with_delivered)
    return [Subject(each.case, altered(each.entry, fitting), each.environment) for each in subjects]


def with_loading(entry: Any) -> None:
    """Loading that fits an entry's work and samples, in place."""
    raw = entry["raw"]
    samples = raw["work"]["samples"] + raw["work"]["skipped_samples"]
    found = {"loaded_samples": samples, "loaded_bytes": samples * entry["memory"]["data"]["image_bytes"]}
    raw["loading"] = {"load_seconds": 0.5, "wait_seconds": 0.01, **(raw["loading"] or {}), **found}


def subjects_of(result: Result) -> list[Subject]:
    """The tests of a result."""
    cases = (Case(test.index, test.workload, test.settings) for test in result.tests)
    return [Subject(case, test, result.environment) for case, test in zip(cases, result.tests, strict=True)]


def violated_claims(subject: Subject, *alterations: Alteration, **settings: Any) -> list[str]:
    """The claims that an entry violates after its measurements and settings were altered."""
    return [*violated(part(subject.case.workload, "claims").CLAIMS, rebuilt(subject, *alterations, **settings))]


def rebuilt(subject: Subject, *alterations: Alteration, **settings: Any) -> Subject:
    """The entry with altered measurements and settings, all derived values computed again."""
    entry = plain(subject.entry)
    together(*alterations)(entry)
    case = Case(subject.case.index, subject.case.workload, {**subject.case.settings, **settings})
    record = part(case.workload, "record").ENTRY
    altered: TrainingRow = convert(entry, record)
    measured = Measured(altered.raw, altered.memory, altered.telemetry, altered.wall)
    return Subject(case, part(case.workload, "checks").build(case, measured, Before()), subject.environment)


def fitted(subject: Subject, dataset: Dataset, target: float, *alterations: Alteration, **settings: Any) -> Subject:
    """The entry as if the training had used other data."""
    case = Case(subject.case.index, subject.case.workload, {**subject.case.settings, **settings})
    samples, shards = dataset.training_samples, shards_of(case, dataset.training_samples)
    steps = [shard.steps * case["EPOCHS"] for shard in shards]
    work, passes = trained(case, shards), subject.entry.raw.work.validation_passes
    fits = {
        "raw.dataset": plain(dataset),
        "raw.target": target,
        "raw.work.samples": work,
        "raw.work.executed_operations": work * per_sample(case, dataset),
        "raw.work.steps": sum(steps),
        "raw.work.validation_counted": passes * dataset.validation_samples,
        "raw.models.steps_min": min(steps),
        "raw.models.steps_max": max(steps),
        "raw.models.reached": 0,
        "raw.models.reached_seconds_sum": 0.0,
        "raw.models.reached_seconds_max": 0.0,
        "raw.models.reached_epochs_sum": 0,
        "raw.models.reached_epochs_max": 0,
        "raw.step_seconds.count": max(steps),
        "raw.preparation.steps_per_epoch": shards[0].steps,
        "raw.preparation.sharding": shards[0].rule,
        "raw.curve.*.counted": dataset.validation_samples,
        "raw.curve.*.fingerprint": expected_fingerprint(dataset.validation_samples),
        "raw.ensemble.bag_evaluated": left_out(case, samples),
        "raw.replay.audits": {"entropy": f"{1:016x}", "steps": audited(range(shards[0].steps), case["EPOCHS"])},
        "memory.data.samples": samples,
        "raw.preparation.processor": None,  # whose bound the time does not fit
    }
    raw: TrainingRaw = subject.entry.raw
    if raw.all_reduce is not None:
        elements = sum(graph_of(case, dataset).parameters.values())
        fits["raw.sent.bytes"] = needed_bytes(raw.all_reduce, elements, 4)
    fitting = [changed(path, value) for path, value in fits.items()]
    return rebuilt(subject, *fitting, *alterations, with_loading, with_delivered, **settings)


def audited(steps: range, epochs: int) -> list[tuple[int, int]]:
    """The audited steps of a first model that entropy 1 gives, one in each epoch."""
    return [(epoch, step) for epoch in range(epochs) for step in drawn_steps(1, steps, 1, 0, epoch)]


def chosen(subject: Subject, *alterations: Alteration) -> Subject:
    """The same test with KERNELS auto: all products custom, no custom batch norm."""
    graph, batch = graph_of(subject.case, subject.entry.raw.dataset), subject.case["BATCH"]
    forward = Forward(vendor=0.002, mixed=0.003, custom=0.001)
    backward = Backward(vendor=0.004, mixed=0.005, custom=0.002)
    both = Backward(vendor=0.004, mixed=0.005, custom=0.002, input_gradient=0.003, weight_gradient=0.003)
    products = [
        TimedProduct(
            kernel=kernel,
            shape=shape,
            layers=count,
            forward=forward,
            backward=both if inputs else backward,
            custom=rule.chosen(forward, both if inputs else backward),
        )
        for (kernel, shape, inputs), count in layers_of(graph, batch).items()
    ]
    norms = [
        TimedNormalisation(shape=shape, layers=count, vendor=0.001, custom=0.001, chosen=False)
        for shape, count in one_kernel_sites(graph, batch).items()
    ]
    whole = WholeStep(vendor=0.1, chosen=0.09)
    choice = KernelChoice(rounds=3, products=tuple(products), normalisations=tuple(norms), whole=whole)
    alteration = together(
        changed("raw.preparation.kernel_choice", plain(choice)), changed("raw.phases.kernel_choice", 1.0), COMPARED
    )
    return rebuilt(subject, alteration, *alterations, KERNELS="auto")


def stopped(subject: Subject) -> Subject:
    """The test, if the run had been broken off after its last step, with its last epoch validated."""
    raw, record = subject.entry.raw, part(subject.case.workload, "record").STOPPED
    found = {
        "where": "training",
        "dataset": raw.dataset,
        "samples": raw.work.samples,
        "skipped_samples": 0,
        "executed_operations": raw.work.executed_operations,
        "steps": raw.work.steps,
        "seconds": 1.0,
        "curve": raw.curve,
    }
    return Subject(subject.case, record(**found), subject.environment)
