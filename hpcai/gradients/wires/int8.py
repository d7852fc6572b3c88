"""Wire type int8 with error feedback.

Seide et al., 1-bit stochastic gradient descent and its application to data-parallel distributed training of speech
DNNs, 2014, section 3.1: what rounding leaves is added to the next step's gradient. Numbers are exchanged in int8 by
reduce-scatter and all-gather and summed in int32: sums of int8 would wrap around.
"""

from hpcai.gradients.reductions.reduction import Link, Vector
from hpcai.gradients.wires import WIRES
from hpcai.gradients.wires.wire import Wire

WORD = 4  # bytes of a packet are a multiple of it, so that the scale in front is aligned


@WIRES.register("int8")
class Int8(Wire):
    """One scale for a vector, common to the link's ranks; another one for each part of the sum, from its owner.

    What the first rounding leaves stays with its rank; what the rounding of a part of the sum leaves, with its owner.
    """

    nbytes = 1
    exact = 127
    carries = True

    def sum(self, vector: Vector, link: Link, carried: Vector) -> None:
        if link.ranks == 1:
            return
        count = WORD * -(-len(vector) // (WORD * link.ranks))
        sent, received = (link.buffer(name, "int8", count * link.ranks) for name in ("sent", "received"))
        with link.packing() as pack:
            peak = pack.add(vector, carried)
        link.largest(peak)
        with link.packing() as pack:
            scale = pack.scale_of(peak)
            pack.quantise(vector, scale, sent, carried)
        link.all_to_all(sent, received)
        packets = self._packets(received, scale, count, link, carried)
        with link.packing() as pack:
            pack.dequantise(packets.view(link.ranks, WORD + count), vector)

    def _packets(self, received: Vector, scale: Vector, count: int, link: Link, carried: Vector) -> Vector:
        """The sums in the packets of all parts."""
        packet = link.buffer("packet", "int8", WORD + count)
        packets = link.buffer("packets", "int8", (WORD + count) * link.ranks)
        own = carried[link.rank * count : (link.rank + 1) * count]
        with link.packing() as pack:
            sums = link.buffer("sums", "float32", count)
            pack.sum_bytes(received.view(link.ranks, count), scale, sums)
            second = pack.scale_of(pack.largest(sums))
            packet[:WORD].copy_(second.view(packet.dtype))
            pack.quantise(sums[: len(own)], second, packet[WORD:], own, add=True)
        link.all_gather(packet, packets)
        return packets

    def buffer_bytes(self, elements: int) -> int:
        """Bytes sent and received, packets of all parts, and of one part of up to half the packets and fp32 sums."""
        return 6 * elements
