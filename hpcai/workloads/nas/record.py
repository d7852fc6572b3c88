"""Records of `[nas]`: raw measurements of a search, its scores over time, and HPL's row."""

from typing import Annotated, Literal

from hpcai.record.all_reduce import AllReduce, SentGradients
from hpcai.record.content import WhatArrived
from hpcai.record.dataset import Dataset, Staging
from hpcai.record.energy import Energy
from hpcai.record.entry import Row
from hpcai.record.preflight import CheckedNetwork, PrecisionProbe, Residuals, SiteKernels, VendorComparison
from hpcai.record.processor import RanksProcessor
from hpcai.record.record import Backend, Count, Positive, Record, Seconds, Sha256, about
from hpcai.record.sample_loading import Loading
from hpcai.record.training import Replay
from hpcai.record.trial import End, Hyperparameters, Operation, Trial
from hpcai.record.wall_time import AccountingOfTest
from hpcai.workloads.nas.score_record import SearchScores

EndedBy = Literal["trials", "rounds", "duration", "converged", "exhausted"]


class SearchPhases(Record, kw_only=True):
    """Seconds of the phases of a search outside its trials."""

    start_up: Annotated[
        Seconds | None,
        about(
            "first test only: from the creation of the process to the search",
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
    set_up: Annotated[Seconds, about("preparation of data and first model", unit="s", label="phase set-up, s")]
    residuals: Annotated[Seconds, about("checks before the search", unit="s", label="phase residuals, s")]
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
    interrupted: Annotated[
        Seconds | None,
        about(
            "of a resumed search: from its last trial of a job to the begin of the next job's test; not in the search",
            unit="s",
            label="phase interrupted, s",
            absent="",
        ),
    ] = None
    search: Annotated[
        Seconds,
        about(
            "from the first trial to the last; in each job that was broken off, until its last trial",
            unit="s",
            label="phase search, s",
        ),
    ]


class OverGroups(Record, kw_only=True):
    """Seconds of the groups."""

    min: Annotated[float, about("group with the least", unit="s")]
    mean: Annotated[float, about("mean of the groups", unit="s")]
    max: Annotated[float, about("group with the most", unit="s")]


class GroupSeconds(Record, kw_only=True):
    """Seconds of the groups' activities during the search."""

    training: Annotated[OverGroups, about("training steps")]
    validation: Annotated[OverGroups, about("validation steps")]
    warmup: Annotated[OverGroups, about("first steps of new shapes")]
    idle: Annotated[OverGroups, about("everything else")]


class Coordinator(Record, kw_only=True):
    """The rank that answers the groups' requests."""

    requests: Annotated[Count, about("requests answered")]
    busy_seconds: Annotated[Seconds, about("time spent on answers", unit="s")]
    wait_mean: Annotated[
        Seconds, about("mean wait for an answer", unit="s", label="coordinator, mean wait for an answer, s")
    ]
    wait_max: Annotated[
        Seconds, about("longest wait for an answer", unit="s", label="coordinator, longest wait for an answer, s")
    ]


class Proposals(Record, kw_only=True):
    """Networks that the suggester proposed."""

    count: Annotated[Count, about("proposals")]
    rejected: Annotated[Count, about("candidates beyond the limits of the input or of memory")]
    seconds_mean: Annotated[Seconds, about("mean time of a proposal", unit="s", label="proposal of a network, mean, s")]
    seconds_max: Annotated[
        Seconds, about("longest time of a proposal", unit="s", label="proposal of a network, longest, s")
    ]


class SearchWork(Record, kw_only=True):
    """Work of all trials, summed over the ranks."""

    samples: Annotated[Count, about("training samples of steps that changed the weights")]
    skipped_samples: Annotated[Count, about("samples of steps skipped because a gradient overflowed")]
    executed_operations: Annotated[Count, about("operations counted while the layers ran", unit="FLOP")]
    steps: Annotated[Count, about("optimiser steps")]
    differing_ranks: Annotated[Count, about("ranks whose weights differ from their group's first rank")]
    between_nodes: Annotated[Count, about("groups whose ranks lie on several nodes")]


class SearchMeasured(Record, kw_only=True):
    """Measurements of a search, complete or broken off."""

    dataset: Annotated[Dataset, about("the data")]
    target: Annotated[float, about("quality target")]
    sharding: Annotated[str, about("how an epoch's samples are divided among the ranks of a group")]
    wrong_sums: Annotated[Count, about("wrong elements of an all-reduce of integers, all ranks")]
    residuals: Annotated[Residuals, about("residuals of the provider's products")]
    work: Annotated[SearchWork, about("work of all trials")]
    lost_groups: Annotated[
        tuple[int, ...], about("groups (from 0) that ended because a rank was lost; the trials that they ran are lost")
    ] = ()
    retired_groups: Annotated[Count, about("groups that stopped after losing a trial")]
    granted: Annotated[Count, about("trials that were handed out")]
    duplicates: Annotated[Count, about("proposals refused as already known")]
    trials: Annotated[tuple[Trial, ...], about("the trials")]
    seconds: Annotated[Seconds, about("duration of the search", unit="s")]
    group_seconds: Annotated[GroupSeconds, about("time of the groups by activity", unit="s")]
    replay: Annotated[Replay, about("replayed steps")]
    accounting: AccountingOfTest = None
    coordinator: Annotated[Coordinator, about("coordinator's answers")]
    proposals: Annotated[Proposals, about("proposals of networks")]
    largest_deviation: Annotated[float, about("largest deviation of a child's outputs from its parent's, relative")]
    phases: Annotated[SearchPhases, about("seconds by phase", unit="s")]
    probe: Annotated[PrecisionProbe | None, about("precision other than fp32 only: time of the heaviest layer")] = None
    vendor_comparison: Annotated[
        VendorComparison | None, about("KERNELS other than vendor only: comparison with the vendor's")
    ] = None
    loading: Annotated[
        Loading | None, about("loading of the training samples of all trials, without those of lost trials")
    ] = None
    delivered: WhatArrived = None
    processor: RanksProcessor = None
    network_check: CheckedNetwork = None
    evaluation_deviation: Annotated[
        float | None,
        about("evaluation against the simple path / bound, worst sample of some trials; null in older results"),
    ] = None
    sent: Annotated[
        SentGradients | None, about("DEGREE above 1 only: what a rank sent, mean over the steps of all trials")
    ] = None
    resumed: Annotated[
        tuple[Seconds, ...] | None,
        about("seconds of the search at which it was resumed from its journal; null in older results", unit="s"),
    ] = None
    history_sha256: Annotated[
        Sha256 | None, about("SHA-256 of history.jsonl by what was appended to it; null in older results")
    ] = None


class SearchRaw(SearchMeasured, kw_only=True):
    """Raw measurements of a complete search."""

    backend: Annotated[Backend, about("backend of the all-reduce; none where groups have one rank")]
    ended_by: Annotated[EndedBy, about("why the search ended")]
    staging: Annotated[Staging | None, about("STAGE other than none only: copies of the data")] = None
    site_kernels: Annotated[SiteKernels | None, about("KERNELS file:PATH only: the kernels of the file")] = None
    all_reduce: Annotated[AllReduce | None, about("DEGREE above 1 only: summation of the gradients")] = None
    energy: Annotated[Energy | None, about("energy of the search; null in older results")] = None


class StoppedSearch(SearchMeasured, kw_only=True):
    """A search in which the run was broken off."""

    @property
    def samples(self) -> int:
        """Training samples credited until then."""
        return self.work.samples

    @property
    def steps(self) -> int:
        """Optimiser steps until then."""
        return self.work.steps

    where: Annotated[Literal["search"], about("stage in which it stopped")] = "search"
    ended_by: Annotated[str, about("empty, or why the search had ended")] = ""


class TrialRow(Record, kw_only=True):
    """A trial in the table of trials; a line of trials.csv."""

    id: Annotated[Positive, about("number of the trial")]
    worker: Annotated[Count, about("group")]
    round: Annotated[Positive, about("round of the search")]
    parent: Annotated[Positive | None, about("trial whose network was morphed")]
    operation: Annotated[Operation, about("kind of the first morphism, or initial")]
    hyperparameters: Annotated[Hyperparameters, about("batch size and kernel size")]
    accuracy: Annotated[float, about("best validation accuracy")]
    ops: Annotated[Count, about("operations of training and validation, rule aiperf")]
    given: Annotated[Seconds, about("time at which the coordinator granted it", unit="s")]
    started: Annotated[Seconds, about("time at which the group began", unit="s")]
    returned: Annotated[Seconds, about("time at which its result returned", unit="s")]
    verdict: Annotated[End, about("how it ended")]


class SearchRow(Row, kw_only=True):
    """A test of `[nas]`."""

    workload: Literal["nas"] = "nas"
    phases: Annotated[SearchPhases, about("seconds by phase, as in raw", unit="s")]
    scores: Annotated[SearchScores, about("scores")]
    raw: Annotated[SearchRaw, about("raw measurements")]
    trials: Annotated[tuple[TrialRow, ...], about("the table of trials")]


ENTRY = SearchRow
STOPPED = StoppedSearch
