"""Machine file: the links of a machine that may not be there, in TOML; with rates and efficiencies that are published.

A wrong file is an InputError that names the file, the key and what is allowed.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, ValidationError, convert

from hpcai.errors import InputError
from hpcai.formulas.all_reduce_cost import Link, Links
from hpcai.projection.machines import FOLDER, names

Above0 = Annotated[float, Meta(gt=0)]
From0 = Annotated[float, Meta(ge=0)]
Whole = Annotated[int, Meta(ge=1)]
MIB = float(2**20)


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; `source`: where its numbers are from."""

    source: str = ""


class LinkTable(Table, frozen=True, kw_only=True):
    """latency: of a message, s; bandwidth: B/s in one direction, of a rank within a node, of a node between nodes."""

    latency: From0
    bandwidth: Above0

    @property
    def link(self) -> Link:
        """The link of the cost formulas."""
        return Link(self.latency, 1 / self.bandwidth)


class Buckets(Table, frozen=True, kw_only=True):
    """Gradients that are sent together: a bucket ends at so many bytes, at the latest with the cycle of so many s.

    The defaults are torch's (Li et al., PyTorch Distributed, 2020, section 5.3). cycle 0: no cycle.
    """

    first: Above0 = 1 * MIB
    largest: Above0 = 25 * MIB
    cycle: From0 = 0.0


TORCH = Buckets()


class Rank(Table, frozen=True, kw_only=True):
    """A rank that trains alone: FLOP/s by rule `model`; standard deviations of a step and of the ranks, as shares."""

    flops: Above0
    spread: From0 = 0.0
    ranks_spread: From0 = 0.0


class PublishedCase(Table, frozen=True, kw_only=True):
    """The case that efficiencies are published of; one model on all ranks, weak scaling."""

    network: str
    image: Whole
    classes: Whole
    batch: Whole
    samples: Whole
    epochs: Whole
    variant: str = "v1.5"
    algorithm: Literal["flat", "tree", "hierarchical", "torus"] = "flat"


class PublishedEfficiency(Table, frozen=True, kw_only=True):
    """Efficiencies relative to `reference` ranks."""

    reference: Whole
    ranks: tuple[Whole, ...]
    efficiency: tuple[Above0, ...]


class Node(Table, frozen=True, kw_only=True):
    """A node."""

    ranks: Whole


class Storage(Table, frozen=True, kw_only=True):
    """Shared storage: B/s of all nodes together."""

    bandwidth: Above0


class Machine(Table, frozen=True, kw_only=True):
    """A machine file. label: what kind of machine it is, such as `example`; in each line."""

    name: str
    node: Node
    label: str = ""
    within: LinkTable | None = None
    between: LinkTable | None = None
    buckets: Buckets = TORCH
    rank: Rank | None = None
    storage: Storage | None = None
    case: PublishedCase | None = None
    published: PublishedEfficiency | None = None

    @property
    def links(self) -> Links:
        """What the cost formulas need."""
        ends = (table.link if table else None for table in (self.within, self.between))
        return Links(self.node.ranks, *ends)

    @property
    def title(self) -> str:
        """Name and label."""
        return f"{self.name} ({self.label})" if self.label else self.name


def machine_of(name: str) -> Machine:
    """The machine of a file, or of the name of a shipped one."""
    path = FOLDER / f"{name}.toml" if name in names() else Path(name)
    try:
        return _checked(convert(tomllib.loads(path.read_text("utf-8")), Machine))
    except OSError as error:
        shipped = ", ".join(names())
        raise InputError(f"machine file {path}: {error.strerror}; allowed: a file, or one of {shipped}") from None
    except (ValidationError, ValueError) as error:  # of the record; of TOML, or of UTF-8
        raise InputError(f"machine file {path}: {error}") from None


def _checked(machine: Machine) -> Machine:
    published = machine.published
    if published and len(published.ranks) != len(published.efficiency):
        raise ValueError("published: ranks and efficiency have different lengths; allowed: as many")
    if published and not (machine.case and machine.rank):
        raise ValueError("published needs the tables [case] and [rank]")
    return machine
