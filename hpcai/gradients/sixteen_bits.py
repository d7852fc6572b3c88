"""What the 16-bit wire types share: one rounding of each rank's numbers, and one of their sum."""

from typing import ClassVar

from hpcai.gradients.reductions.reduction import Link, Vector
from hpcai.gradients.wires.wire import Wire


class SixteenBits(Wire):
    """Sends gradients in 16 bits.

    A backend whose sums of 16 bits are fast sums them itself. Otherwise each rank receives a part of all vectors, sums
    it in fp32, rounds the sum once and sends it to all.
    """

    nbytes = 2
    kind: ClassVar[str]  # torch's name of the type

    def sum(self, vector: Vector, link: Link, carried: Vector) -> None:
        if link.ranks == 1:
            return
        count = -(-len(vector) // link.ranks)
        sent = link.buffer("sent", self.kind, count * link.ranks)
        with link.packing():
            sent[: len(vector)].copy_(vector)
            sent[len(vector) :].zero_()
        if link.sums_16_bits:
            link.all_reduce(sent)
        else:
            self._sum_of_parts(sent, count, link)
        with link.packing():
            vector.copy_(sent[: len(vector)])

    def _sum_of_parts(self, sent: Vector, count: int, link: Link) -> None:
        received, part = link.buffer("received", self.kind, len(sent)), link.buffer("own part", self.kind, count)
        link.all_to_all(sent, received)
        with link.packing() as pack:
            pack.sum_rows(received.view(link.ranks, count), link.buffer("sums", "float32", count))
            part.copy_(link.buffer("sums", "float32", count))
        link.all_gather(part, sent)

    def buffer_bytes(self, elements: int) -> int:
        """What is sent and received, a part of up to half of it in 16 bits, and in fp32."""
        return 7 * elements
