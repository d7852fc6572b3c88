"""Image classification by an ensemble of P models, each trained by Q ranks (HPC AI500 V3; P = 1 is V2)."""

from dataclasses import asdict

import torch

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.image_dataset import Dataset, description
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.record.record import as_json
from hpcai.train import bagging
from hpcai.train.loop import Training
from hpcai.training import stages
from hpcai.training.assembly import assembled
from hpcai.training.groups import Measurement, Stopped


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: stages.Tell, shutdown: Shutdown
) -> Measurement | Stopped | None:
    """Measure one case, as `stages.run` does."""
    return stages.run(Classification(), case, seed, world, device, tell, shutdown)


class Classification:
    """Pictures are told apart; the ensemble's output is the mean of its models'."""

    def open(self, case: Case, group: Group) -> Dataset:
        return catalog.open_for(case.data_settings)

    def describe(self, dataset: Dataset) -> Measurement:
        return as_json(description(dataset))

    def assemble(
        self, case: Case, seed: int, group: Group, device: torch.device, dataset: Dataset, graph: Graph
    ) -> Training:
        return assembled(case, seed, group, device, dataset, graph)

    def judge(self, trained: Training, group: Group, shutdown: Shutdown) -> Measurement:
        module, validation = trained.state.module, trained.validation
        return asdict(bagging.judge(module, group, validation, trained.loader, trained.sampler, shutdown))

    def told(self, entry: Measurement) -> str:
        return f"{entry['correct']} judged right"
