"""Claims about `[weather]`: dataset, work, curves, members and ensemble, loading."""

from collections.abc import Callable, Sequence
from math import isclose

from hpcai.claims.all_reduce_claims import ALL_REDUCE
from hpcai.claims.audit_claims import AUDITS
from hpcai.claims.checkpoint_claims import CHECKPOINTS
from hpcai.claims.curve_claims import CURVE, counted, reached_claims
from hpcai.claims.dataset_claims import dataset_of
from hpcai.claims.delivered_claims import DELIVERED, NOT_RECOUNTED
from hpcai.claims.energy_claims import ENERGY, THROUGHPUT
from hpcai.claims.kernel_choice_claims import KERNEL_CHOICE
from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.preflight_claims import PRECISION, PREPARATION, STAGE, kernels_claims
from hpcai.claims.processor_claims import processor_claims
from hpcai.claims.stopped_claims import stopped_curve, stopped_work
from hpcai.claims.telemetry_claims import ROW_TELEMETRY
from hpcai.claims.training_claims import BAGS, EXECUTION, ONE_MODEL, RANKS, WORK
from hpcai.detections.agreement import pairs
from hpcai.detections.detection_tables import TRUE
from hpcai.formulas.score import mean_precision
from hpcai.inputfile import Case
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.weather.data_claims import WEATHER_DATA, weather_data
from hpcai.workloads.weather.loading_claims import LOADING
from hpcai.workloads.weather.record import WeatherRaw

NEAR = 0.01  # difference of mAP in two passes over the same frames, by rounding
ROUNDING = 1e-9
Classes = Sequence[float | None]


def _of_raw(holds: Callable[[Case, WeatherRaw], bool]) -> Callable[[Subject], bool]:
    return lambda subject: holds(subject.case, subject.entry.raw)


def _of_classes(precision: Classes, boxes: Sequence[int]) -> bool:
    """Each class has a precision from 0 to 1 if, and only if, it has true boxes."""
    return len(precision) == len(boxes) and all(
        (value is None) == (count == 0) and 0 <= (value or 0) <= 1
        for value, count in zip(precision, boxes, strict=True)
    )


def _loose(case: Case, raw: WeatherRaw) -> bool:
    return mean_precision(raw.ensemble.loose_precision) >= mean_precision(raw.ensemble.precision) - ROUNDING


def _bag(case: Case, raw: WeatherRaw) -> bool:
    bag = raw.ensemble.bag_precision
    return len(bag) == len(raw.ensemble.true_boxes) and all(0 <= (value or 0) <= 1 for value in bag)


def _agreement(case: Case, raw: WeatherRaw) -> bool:
    most = pairs(case.groups) * raw.dataset.validation_samples
    return bool(0 <= raw.ensemble.agreement <= most * (1 + ROUNDING))


TOGETHER = (
    Claim(
        "curve: a precision for each class that has true boxes",
        _of_raw(
            lambda case, raw: all(_of_classes(entry.average_precision, raw.ensemble.true_boxes) for entry in raw.curve),
        ),
        changed("raw.curve.0.average_precision", [None, 0.1]),
    ),
    Claim(
        "true_boxes: a number for each class, some above 0",
        _of_raw(lambda case, raw: len(raw.ensemble.true_boxes) == raw.dataset.classes and any(raw.ensemble.true_boxes)),
        changed("raw.ensemble.true_boxes", [0, 0]),
    ),
    Claim(
        "true_boxes: at most 15 a frame",
        _of_raw(lambda case, raw: sum(raw.ensemble.true_boxes) <= TRUE * raw.dataset.validation_samples),
        changed("raw.ensemble.true_boxes", [700, 100]),
    ),
    Claim(
        "precision: of each class that has true boxes",
        _of_raw(lambda case, raw: _of_classes(raw.ensemble.precision, raw.ensemble.true_boxes)),
        changed("raw.ensemble.precision", [0.1, 0.1, 0.1]),
    ),
    Claim(
        "loose_precision: of each class that has true boxes",
        _of_raw(lambda case, raw: _of_classes(raw.ensemble.loose_precision, raw.ensemble.true_boxes)),
        changed("raw.ensemble.loose_precision", [None, 0.1]),
    ),
    Claim(
        "loose_precision >= precision: less overlap is asked for",
        _of_raw(_loose),
        changed("raw.ensemble.loose_precision", [0.0, 0.0]),
    ),
    Claim("bag_precision: of each class, from 0 to 1", _of_raw(_bag), changed("raw.ensemble.bag_precision", [0.1])),
    Claim(
        "bag_precision: of no class where no frame was evaluated",
        _of_raw(
            lambda case, raw: (
                raw.ensemble.bag_evaluated > 0 or all(value is None for value in raw.ensemble.bag_precision)
            ),
        ),
        changed("raw.ensemble.bag_precision", [0.1, 0.1]),
        ONE_MODEL,
    ),
    Claim("0 <= agreement <= pairs of models x samples", _of_raw(_agreement), changed("raw.ensemble.agreement", 48.01)),
)


def _qualities(raw: WeatherRaw) -> list[float]:
    """Of the first model's curve."""
    return [mean_precision(entry.average_precision) for entry in raw.curve]


def _sum(case: Case, raw: WeatherRaw) -> bool:
    members, others = raw.members, case.groups - 1
    least, most = others * members.min + members.max, members.min + others * members.max
    return least - ROUNDING * case.groups <= members.sum <= most + ROUNDING * case.groups


def _is_the_model(case: Case, raw: WeatherRaw) -> bool:
    quality = mean_precision(raw.ensemble.precision)
    return case.groups > 1 or isclose(quality, _qualities(raw)[-1], abs_tol=NEAR)


MODELS = (
    Claim(
        "members.min <= the first model's <= max",
        _of_raw(lambda case, raw: raw.members.min <= _qualities(raw)[-1] <= raw.members.max),
        changed("raw.curve.1.average_precision", [0.9, 0.9]),
    ),
    Claim(
        "members.best >= max",
        _of_raw(lambda case, raw: raw.members.best >= max(*_qualities(raw), raw.members.max)),
        changed("raw.members.best", 0.001),
    ),
    Claim(
        "members.best <= 1",
        _of_raw(lambda case, raw: raw.members.best <= 1),
        changed("raw.members.best", 1.01),
    ),
    Claim("members.sum: between min and max of so many models", _of_raw(_sum), changed("raw.members.sum", 0.5)),
    Claim(
        "one model: its best is the curve's",
        _of_raw(lambda case, raw: case.groups > 1 or raw.members.best == max(_qualities(raw))),
        changed("raw.members.best", 0.5),
        ONE_MODEL,
    ),
    Claim(
        "one model: the ensemble is the model",
        _of_raw(_is_the_model),
        together(changed("raw.ensemble.precision", [0.1, 0.1]), changed("raw.ensemble.loose_precision", [0.2, 0.2])),
        ONE_MODEL,
    ),
)


def _stopped_classes(subject: Subject) -> bool:
    """Each class has a precision from 0 to 1, or none without true boxes."""
    classes = dataset_of(subject).classes
    found = [entry.average_precision for entry in subject.entry.curve]
    return all(len(each) == classes and all(0 <= (value or 0) <= 1 for value in each) for each in found)


CLAIMS: Claims = (
    WEATHER_DATA,
    (
        *WORK,
        *AUDITS,
        *RANKS,
        *ALL_REDUCE,
        *BAGS,
        *DELIVERED,
        NOT_RECOUNTED,
        *CHECKPOINTS,
        *CURVE,
        *TOGETHER,
        *MODELS,
        *reached_claims(lambda subject: float(subject.entry.raw.members.best)),
        *STAGE,
        *kernels_claims(PREPARATION, classifies=False),
        *KERNEL_CHOICE,
        *PRECISION,
        *processor_claims(PREPARATION),
        *EXECUTION,
        *MEMORY,
        *LOADING,
        *ROW_TELEMETRY,
        *ENERGY,
        *THROUGHPUT,
    ),
)
STOPPED_CLAIMS: Claims = (
    weather_data(""),
    (
        *stopped_work(),
        *counted(""),
        *stopped_curve(),
        Claim(
            "curve: a precision for each class",
            _stopped_classes,
            changed("curve.0.average_precision", [0.1]),
        ),
    ),
)
