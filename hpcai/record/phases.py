"""Records of the phases of a test that trains, and of their shares."""

from typing import Annotated

from hpcai.record.record import PositiveSeconds, Record, Seconds, about


class Phases(Record, kw_only=True):
    """Seconds of the slowest rank by phase, in the order in which they happen; null where a test has no such phase."""

    start_up: Annotated[
        Seconds | None,
        about(
            "first test only: from the creation of the process to the first timed step",
            unit="s",
            label="phase start-up, s",
            absent="",
        ),
    ] = None
    staging: Annotated[
        Seconds | None,
        about(
            "copying the data to the nodes, or checking the copies kept there",
            unit="s",
            label="phase staging, s",
            absent="",
        ),
    ] = None
    set_up: Annotated[Seconds, about("preparation of data and model", unit="s", label="phase set-up, s")]
    kernel_choice: Annotated[
        Seconds | None, about("timing of the layers, KERNELS auto", unit="s", label="phase kernel choice, s", absent="")
    ] = None
    residuals: Annotated[Seconds, about("checks before the training", unit="s", label="phase residuals, s")]
    probe: Annotated[
        Seconds | None,
        about("comparison of the precision with fp32", unit="s", label="phase precision probe, s", absent=""),
    ] = None
    vendor_comparison: Annotated[
        Seconds | None,
        about(
            "comparison of custom kernels with the vendor's", unit="s", label="phase vendor comparison, s", absent=""
        ),
    ] = None
    warm_up: Annotated[
        Seconds, about("steps before the clock, whose effects are undone", unit="s", label="phase warm-up, s")
    ]
    training: Annotated[
        PositiveSeconds,
        about(
            "first to last timed step, validations excluded; the Time of the row", unit="s", label="phase training, s"
        ),
    ]
    data_wait: Annotated[
        Seconds, about("part of training: waiting for a batch", unit="s", label="phase data wait (in training), s")
    ]
    exposed_communication: Annotated[
        Seconds,
        about(
            "part of training: from a step's last gradient to the end of the averaging; exchanges of shards and stages",
            unit="s",
            label="phase exposed communication (in training), s",
        ),
    ]
    replay: Annotated[Seconds, about("checks after epochs and training", unit="s", label="phase replay, s")]
    checkpoint: Annotated[
        Seconds | None,
        about("copies of the state for checkpoints", unit="s", label="phase checkpoint, s", absent=""),
    ] = None
    interrupted: Annotated[
        Seconds | None,
        about(
            "of a resumed test: from its last checkpoint to the begin of the process that went on",
            unit="s",
            label="phase interrupted, s",
            absent="",
        ),
    ] = None
    validation: Annotated[Seconds, about("validations", unit="s", label="phase validation, s")]
    ensemble: Annotated[
        Seconds, about("evaluation of the ensemble and out of bag", unit="s", label="phase ensemble, s")
    ]
    profile: Annotated[Seconds, about("profiled steps after training", unit="s", label="phase profile, s")]


class PhaseShares(Record, kw_only=True):
    """Seconds of a phase / the sum of all phases; phases within training are part of it."""

    start_up: Annotated[
        float | None,
        about("start-up less the phases that it includes / all phases", label="share of phases, start-up", absent=""),
    ] = None
    staging: Annotated[float | None, about("staging / all phases", label="share of phases, staging", absent="")] = None
    set_up: Annotated[float, about("set-up / all phases", label="share of phases, set-up")]
    kernel_choice: Annotated[
        float | None, about("kernel choice / all phases", label="share of phases, kernel choice", absent="")
    ] = None
    residuals: Annotated[float, about("residuals / all phases", label="share of phases, residuals")]
    probe: Annotated[
        float | None, about("precision probe / all phases", label="share of phases, precision probe", absent="")
    ] = None
    vendor_comparison: Annotated[
        float | None, about("vendor comparison / all phases", label="share of phases, vendor comparison", absent="")
    ] = None
    warm_up: Annotated[float, about("warm-up / all phases", label="share of phases, warm-up")]
    training: Annotated[float, about("training / all phases", label="share of phases, training")]
    replay: Annotated[float, about("replay / all phases", label="share of phases, replay")]
    validation: Annotated[float, about("validation / all phases", label="share of phases, validation")]
    ensemble: Annotated[float, about("ensemble / all phases", label="share of phases, ensemble")]
    profile: Annotated[float, about("profile / all phases", label="share of phases, profile")]
