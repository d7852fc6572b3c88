"""Claims about the processor of the ranks, from which the bounds of their rates follow."""

from operator import attrgetter

from hpcai.formulas.processor_units import NVIDIA
from hpcai.record.plain import Json
from hpcai.record.processor import Processor
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

GPU: Json = {"vendor": NVIDIA, "family": 9, "model": 0, "features": [], "units": 132, "cycles": 1.98e9}
LARGE: Json = {"vendor": "AuthenticAMD", "family": 25, "model": 17, "features": [], "units": 10**6, "cycles": 3.6e9}


def processor_claims(where: str) -> tuple[Claim, ...]:
    """What the processor of a test is; `where` its measurements stand in the entry, such as raw.preparation."""
    own = attrgetter(f"{where}.processor")

    def of_the_device(subject: Subject) -> bool:
        found: Processor | None = own(subject.entry)
        return found is None or found.vendor != NVIDIA or subject.environment.accelerators > 0

    def within_the_node(subject: Subject) -> bool:
        found: Processor | None = own(subject.entry)
        return found is None or found.vendor == NVIDIA or found.units <= subject.environment.cpus

    return (
        Claim("processor: a GPU only where ranks use GPUs", of_the_device, changed(f"{where}.processor", GPU)),
        Claim("processor: threads <= CPUs of the node", within_the_node, changed(f"{where}.processor", LARGE)),
    )
