"""Scores of the energy of a test's timed region (HPC AI500 V2, section 4: Valid FLOPS per watt)."""

from typing import NamedTuple

from hpcai.record.energy import LEAST_SECONDS, Energy


class EnergyScores(NamedTuple):
    """The scores by the names of their fields; None where the energy does not allow them."""

    mean_watts: float | None = None
    valid_flops_per_watt: float | None = None
    joules_per_sample: float | None = None
    joules_per_training: float | None = None


def energy_scores(energy: Energy | None, valid_flops: float, samples: int, trainings: int) -> EnergyScores:
    """The scores of a test of so many training samples and trainings."""
    watts = mean_watts(energy)
    if energy is None or energy.joules is None or not watts or unscored(energy):
        return EnergyScores(watts)
    per_sample = joules_per_sample(energy, samples)
    return EnergyScores(watts, valid_flops / watts, per_sample, energy.joules / trainings)


def joules_per_sample(energy: Energy | None, samples: int) -> float | None:
    """Energy per training sample; None without scores of energy, or without samples."""
    if energy is None or energy.joules is None or unscored(energy) or not samples:
        return None
    return energy.joules / samples


def mean_watts(energy: Energy | None) -> float | None:
    """Mean power of all nodes together; None if the energy is not known."""
    if energy is None or energy.joules is None or energy.seconds == 0:
        return None
    return energy.joules / energy.seconds


def unscored(energy: Energy | None) -> str:
    """Why there are no scores of energy; empty if there are."""
    if energy is None:
        return "not recorded"
    if energy.joules is None:
        return energy.reason or "not known"
    if energy.covers != "node":
        return f"it is that of the {energy.covers}, not of whole nodes"
    if energy.seconds < LEAST_SECONDS:
        return f"a region of {energy.seconds:.2f} s is shorter than {LEAST_SECONDS:g} s"
    return "" if energy.joules else "the source counted nothing"
