"""Gathers what ranks have kept of an ensemble's evaluation on the first one, which counts it anew and writes a file."""

from pathlib import Path
from secrets import randbits

import numpy as np
from numpy.typing import NDArray

from hpcai import hdf5_tables
from hpcai.comm.grid import Group
from hpcai.frozen.bootstrap import out_of_bag
from hpcai.frozen.samples import TRAINING, VALIDATION, Labelled
from hpcai.frozen.votes import Ensemble, VoteTables
from hpcai.inputfile import Case
from hpcai.train.kept_votes import KeptEvaluation, KeptVotes, gathered
from hpcai.workloads.ensemble import prediction_tables
from hpcai.workloads.ensemble.record import Recount


class PredictionsFile:
    """The predictions of one test. All methods are collective over the active ranks."""

    def __init__(self, case: Case, group: Group, of: Ensemble, source: Labelled, path: Path) -> None:
        """source: reads the labels anew. The samples that are kept follow from the system's entropy, of rank 0."""
        self._case, self._group, self._of, self._source, self._path = case, group, of, source, path
        self._entropy: int = group.active.bcast(randbits(64))
        parts = (KeptVotes(of.sampled(split, self._entropy), of.classes) for split in (VALIDATION, TRAINING))
        self.kept = KeptEvaluation(*parts)

    def write(self) -> Recount:
        """Write the file on the first rank; the figures that follow from it, the same on every rank.

        The first rank holds the tables: 32 MiB of classes and 16 MiB of outputs of each split, at most.
        """
        found, made = self._tables(), None
        if found is not None:
            with hdf5_tables.telling():
                prediction_tables.write(self._path, found)
            made = prediction_tables.recount(found, self._of, self._entropy)
        result: Recount = self._group.active.bcast(made)
        return result

    def _tables(self) -> VoteTables | None:
        """The tables, on the first rank."""
        (validation, training), group = self.kept, self._group
        models, together, outputs = validation.models(group), validation.together(group), validation.outputs(group)
        bag_together, bag_outputs, out = training.together(group), training.outputs(group), self._out()
        if models is None or together is None or outputs is None or bag_together is None or bag_outputs is None:
            return None
        assert out is not None
        labels, bag_labels = self._labels(VALIDATION), self._labels(TRAINING)
        return VoteTables(labels, models, together, outputs, bag_labels, bag_together, bag_outputs, out)

    def _labels(self, split: str) -> NDArray[np.uint16]:
        samples = self._of.sampled(split, self._entropy).samples
        return self._source.labels(split, samples).astype(np.uint16)

    def _out(self) -> NDArray[np.uint8] | None:
        """Which models did not train on each training sample with outputs, uint8[P, L], on the first rank."""
        group, kept = self._group, self._of.sampled(TRAINING, self._entropy)
        if not group.leader:
            return None
        model, samples = group.coordinates.group, kept.samples[kept.voted]
        which = self._case.sampler, self._of.training, self._case.seed, model, group.planned
        own = out_of_bag(*which, samples) if len(samples) else samples
        found: NDArray[np.uint8] | None = gathered(group, own.astype(np.uint8))
        return found
