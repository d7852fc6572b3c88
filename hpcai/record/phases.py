"""Records of the phases of a test that trains, and of their shares."""

from typing import Annotated

from hpcai.record.record import PositiveSeconds, Record, Seconds, about


class Phases(Record, kw_only=True):
    """Seconds of the slowest rank by phase, in the order in which they happen; null where a test has no such phase."""

    start_up: Annotated[
        Seconds | None,
        about(
            "from the start of the process to the first timed step, of the first test",
            unit="s",
            label="phase start-up, s",
            absent="",
        ),
    ] = None
    staging: Annotated[
        Seconds | None, about("copy of the data to the nodes", unit="s", label="phase staging, s", absent="")
    ] = None
    set_up: Annotated[Seconds, about("data and model are made ready", unit="s", label="phase set-up, s")]
    kernel_choice: Annotated[
        Seconds | None, about("KERNELS auto times the layers", unit="s", label="phase kernel choice, s", absent="")
    ] = None
    residuals: Annotated[Seconds, about("the provider's products are checked", unit="s", label="phase residuals, s")]
    probe: Annotated[
        Seconds | None,
        about("the precision is compared with fp32", unit="s", label="phase precision probe, s", absent=""),
    ] = None
    vendor_comparison: Annotated[
        Seconds | None,
        about("custom kernels are compared with the vendor's", unit="s", label="phase vendor comparison, s", absent=""),
    ] = None
    warm_up: Annotated[Seconds, about("steps that are discarded", unit="s", label="phase warm-up, s")]
    training: Annotated[
        PositiveSeconds, about("the timed region, validations excepted", unit="s", label="phase training, s")
    ]
    data_wait: Annotated[
        Seconds, about("of training: waiting for data", unit="s", label="phase data wait (in training), s")
    ]
    exposed_communication: Annotated[
        Seconds,
        about(
            "of training: communication that computing did not hide",
            unit="s",
            label="phase exposed communication (in training), s",
        ),
    ]
    replay: Annotated[Seconds, about("steps are replayed in float64", unit="s", label="phase replay, s")]
    validation: Annotated[Seconds, about("validations between epochs", unit="s", label="phase validation, s")]
    ensemble: Annotated[Seconds, about("the models are evaluated together", unit="s", label="phase ensemble, s")]
    profile: Annotated[Seconds, about("a profiled stretch after the clock", unit="s", label="phase profile, s")]


class PhaseShares(Record, kw_only=True):
    """Seconds of a phase / the sum of all phases; phases within training are part of it."""

    start_up: Annotated[
        float | None, about("less the phases that it includes", label="share of phases, start-up", absent="")
    ] = None
    staging: Annotated[float | None, about("staging", label="share of phases, staging", absent="")] = None
    set_up: Annotated[float, about("set-up", label="share of phases, set-up")]
    kernel_choice: Annotated[
        float | None, about("kernel choice", label="share of phases, kernel choice", absent="")
    ] = None
    residuals: Annotated[float, about("residuals", label="share of phases, residuals")]
    probe: Annotated[float | None, about("precision probe", label="share of phases, precision probe", absent="")] = None
    vendor_comparison: Annotated[
        float | None, about("vendor comparison", label="share of phases, vendor comparison", absent="")
    ] = None
    warm_up: Annotated[float, about("warm-up", label="share of phases, warm-up")]
    training: Annotated[float, about("training", label="share of phases, training")]
    replay: Annotated[float, about("replay", label="share of phases, replay")]
    validation: Annotated[float, about("validation", label="share of phases, validation")]
    ensemble: Annotated[float, about("ensemble", label="share of phases, ensemble")]
    profile: Annotated[float, about("profile", label="share of phases, profile")]
