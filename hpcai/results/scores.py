"""Scores of a test that trains models together, from its raw measurements and earlier tests."""

from hpcai.formulas import score
from hpcai.inputfile import Case
from hpcai.record.dataset import Staging
from hpcai.record.entry import Operations
from hpcai.record.machine import Memory
from hpcai.record.training import Models, TrainingRaw
from hpcai.record.training_scores import TrainingScores
from hpcai.results import gains
from hpcai.results.energy import energy_scores
from hpcai.results.exchange_cost import exchange_cost
from hpcai.results.gradient_cost import gradient_cost
from hpcai.results.kernel_choice import custom_share
from hpcai.results.measured import Before, Measured
from hpcai.results.physical_limits import training_bound
from hpcai.results.pipeline_cost import pipeline_cost
from hpcai.results.qualities import Qualities
from hpcai.results.read_rates import read_rates
from hpcai.results.roofline import gradient_bandwidth, under_roofline
from hpcai.results.row import graph_of, per_sample
from hpcai.results.time_shares import busy_spread, operator_shares, phase_shares, training_shares
from hpcai.results.vendor_comparison import custom_speed
from hpcai.workloads.registry import quality_of


def training_scores(
    case: Case, measured: Measured, counted: Operations, quality: Qualities, before: Before
) -> TrainingScores:
    """The scores shared by all such workloads; `counted` are the test's operations."""
    raw: TrainingRaw = measured.raw
    of = quality_of(case.workload)
    rate = score.flops(counted.credited, raw.phases.training)
    all_reached = raw.models.reached == case.groups
    valid = score.valid_flops(rate, of.share_of_target(quality.quality, raw.target), case.penalty)
    return TrainingScores(
        flops=rate,
        valid_flops=valid,
        quality=quality.quality,
        target=raw.target,
        reached=of.reached(quality.quality, raw.target),
        member_mean=quality.member_mean,
        member_min=quality.member_min,
        member_max=quality.member_max,
        member_best=quality.member_best,
        out_of_bag=quality.out_of_bag,
        disagreement=quality.disagreement,
        time_to_quality=raw.models.reached_seconds_max if all_reached else None,
        time_to_quality_mean=_mean_seconds(raw.models) if all_reached else None,
        epochs_to_quality=raw.models.reached_epochs_max if all_reached else None,
        epochs_to_quality_mean=_mean_epochs(raw.models) if all_reached else None,
        efficiency=gains.efficiency(case, rate, before.tests),
        speedup=gains.speedup(case, rate, before.tests),
        quality_difference=gains.quality_difference(case, quality.quality, before.tests),
        precision_speed=gains.precision_speed(raw.preparation.probe),
        custom_share=custom_share(raw.preparation.kernel_choice),
        custom_speed=custom_speed(raw.preparation.vendor_comparison, raw.preparation.kernel_choice),
        samples_per_second=raw.work.samples / raw.phases.training,
        **read_rates(case, raw.loading)._asdict(),
        memory_share=memory_share(measured.memory),
        staging_rate=staging_rate(raw.staging),
        busy_spread=busy_spread(raw.busy_seconds),
        training_shares=training_shares(raw),
        phase_shares=phase_shares(raw.phases),
        operator_shares=operator_shares(raw.operator_seconds),
        roofline=under_roofline(case, raw, rate, before),
        gradient_bandwidth=gradient_bandwidth(case, raw),
        apc=parallel_computation(case, counted.per_sample),
        apc_hpcai500=parallel_computation(case, per_sample(case, raw.dataset, "hpcai500")),
        gradient_cost=gradient_cost(case, raw),
        exchange_cost=exchange_cost(case, raw),
        pipeline_cost=pipeline_cost(case, raw),
        models_per_minute=models_per_minute(raw),
        rank_bound=training_bound(case, raw.preparation.processor, [graph_of(case, raw.dataset)]),
        **energy_scores(raw.energy, valid, raw.work.samples, case.groups)._asdict(),
    )


def parallel_computation(case: Case, per_sample: int) -> float:
    """APC: operations of a step of all models (HPC AI500 V3, Eq. 3, 4); of a search, of its first step."""
    return float(case.credited_groups * case.degree * case.batch * per_sample)


def models_per_minute(raw: TrainingRaw) -> float | None:
    """Throughput of MLPerf HPC: models that reached the target, from the first start to the last end.

    None where these were not recorded, as in older results.
    """
    return 60 * raw.models.reached / raw.energy.seconds if raw.energy and raw.energy.seconds else None


def _mean_seconds(models: Models) -> float:
    return models.reached_seconds_sum / models.reached


def _mean_epochs(models: Models) -> float:
    return models.reached_epochs_sum / models.reached


def memory_share(memory: Memory) -> float:
    """Peak memory of the rank that used most / planned memory; on a GPU, of the GPU's memory."""
    peak = memory.device_peak_bytes if memory.accelerated else memory.peak_bytes
    return peak / memory.planned_bytes


def staging_rate(staging: Staging | None) -> float | None:
    """Bytes per second that all nodes together copied; None without staging."""
    return staging.bytes / staging.seconds if staging else None
