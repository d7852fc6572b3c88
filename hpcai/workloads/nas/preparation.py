"""Preparation of a search: dataset, preflight checks, vendor comparison."""

from functools import partial
from typing import NamedTuple

import torch

from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.data.image_dataset import Dataset, description
from hpcai.data.order import Shard
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.preflight.network_check import check_network
from hpcai.preflight.residuals import Checked, checks_before
from hpcai.preflight.vendor_comparison import compare_with_vendor
from hpcai.record.all_reduce import AllReduce
from hpcai.record.content import DataContent
from hpcai.record.dataset import Dataset as DatasetRecord
from hpcai.record.preflight import NetworkCheck, VendorComparison
from hpcai.train.communication import communication_of
from hpcai.training.assembly import initial_module, initial_training
from hpcai.training.content import data_content
from hpcai.training.summation import all_reduce_of


class Prepared(NamedTuple):
    """Settings and checks before the search, the same on every active rank."""

    dataset: DatasetRecord
    content: DataContent
    target: float
    sharding: str
    checks: Checked
    vendor_comparison: VendorComparison | None
    network_check: NetworkCheck
    all_reduce: AllReduce | None


def prepared(
    case: Case, group: Group, device: torch.device, dataset: Dataset, initial: Graph, phases: Phases
) -> Prepared:
    """Check collectives, provider and precision, and compare kernels. Collective over the active ranks."""
    communication = communication_of(case, group, device)
    checks = checks_before(case, group, device, initial, phases, communication)
    with phases.measure("residuals"):
        module = initial_module(case, initial, device)
        network = check_network(case, group.active, module, initial, dataset.shape, dataset.number_of_classes)
    reduced = all_reduce_of(communication, group.active)
    first = partial(initial_training, case, group, device, dataset, initial)
    compared = compare_with_vendor(case, initial, first, group.active, device, phases)
    shard = Shard(len(dataset.train), 0, case.split.replicas, case.replica_batch)
    content = data_content(case, dataset, group)
    described, target = description(dataset), case.target or dataset.target
    return Prepared(described, content, target, shard.rule, checks, compared, network, reduced)
