"""Memory and time estimates of a case of `[kernels]`, and the automatic sizes."""

from math import prod

from hpcai.estimate import Rank
from hpcai.inputfile import Case
from hpcai.kernels import attention, conv2d
from hpcai.kernels.conv2d.reference import BLOCK_ELEMENTS as CONVOLUTION_BLOCK
from hpcai.kernels.layers import SPECS
from hpcai.kernels.spec import DTYPES, FORWARD, INPUT_GRADIENT, OPERANDS, WEIGHT_GRADIENT, Tensors
from hpcai.kernels.verify import BLOCK_ELEMENTS, EVERY_ELEMENT, checked
from hpcai.opcount.products import SQUARE, Product, automatic, requested, squares, types_of_squares
from hpcai.plan.requirements import Requirements, shared

MIB = 2**20
FP64_BYTES = 8
FP32 = DTYPES["fp32"]
SMALLEST, LARGEST_SIDE = 512, 2**16
LONGEST = 1.0  # largest seconds of a product of automatic size
QUARTER = 4  # largest share of the free memory for such a product
BEYOND = 4  # size of all vectors of a node's ranks, in last-level caches
VECTOR_BYTES, TRIAD_PART = 24, 8  # an element of three; part of the free memory
TRIAD_VECTORS = {False: (2, 2), True: (4, 2)}  # in memory at once: operands, which providers share on a CPU; results
LEAST_TRIAD = 2**20  # elements
DEVICE_TRIAD = 2**27  # elements, on a GPU
BLOCKS = 9  # float64 arrays of a block at once: factors, squares, products, errors
MATRICES = 16  # float64 matrices of all scores of a head in the check of attention
CHANNEL_BLOCKS = 7  # bytes of the im2col block of one channel, in a weight gradient
PASSES = 64  # FLOP of each number of the factors, with what it takes to gather them
LAYOUTS = 3  # layouts: as drawn (also torch's), custom's, channels_last
WAYS = 2  # of a GPU to multiply bytes by torch, which are tried on results of their own
PACKED = 24 * MIB  # of a thread: what providers pack blocks into
CACHED = 256 * MIB  # largest buffer that overwrites a GPU's caches
SMALL_OBJECTS = 20 * MIB  # of Python and torch: oneDNN kernels, and malloc's overhead
# FLOP/s of one thread, and of a GPU: above any existing one, so that plans are of the largest possible squares.
FASTEST_FP64 = {False: 128e9, True: 70e12}
SPEED = {False: 40e9, True: 5e12}  # approximate FLOP/s of a thread, of a GPU
# As preflight/block_timing.py has them: rounds, seconds of a block at least, and of its pause.
ROUNDS, BLOCK_SECONDS, PAUSE_SECONDS = 3, 0.02, 0.01
CEILING_SECONDS = {False: 2.0, True: 15.0}  # most of it for vectors that come back from a GPU to be checked
CHECK_SPEED = 5e9  # approximate FLOP/s of the checks in float64, with all copies


def triad_length(rank: Rank) -> int:
    """Elements of a triad vector: all vectors far exceed the caches, but not a part of the free memory."""
    wanted = DEVICE_TRIAD if rank.accelerated else BEYOND * rank.cache // (VECTOR_BYTES * rank.ranks)
    vectors = sum(TRIAD_VECTORS[rank.accelerated])
    return max(1, min(max(wanted, LEAST_TRIAD), rank.free // (TRIAD_PART * FP64_BYTES * vectors)))


def automatic_sizes(rank: Rank, flops: float) -> list[int]:
    """Sides of the squares of `auto`.

    512, doubled while they fit into memory and take less than a second at `flops`.
    """
    found = [SMALLEST]
    while found[-1] < LARGEST_SIDE and _fits(2 * found[-1], rank, flops):
        found.append(2 * found[-1])
    return found


def _fits(side: int, rank: Rank, flops: float) -> bool:
    needed = max(sum(needs(product, rank).values()) for product in squares([side]))
    return needed <= rank.free // QUARTER and 2.0 * side**3 <= LONGEST * flops


def kernels_memory(case: Case, rank: Rank) -> dict[str, int]:
    """Bytes of one rank by purpose for the product that needs most, without the baseline of the process.

    On a GPU, bytes of the GPU. Their sum is needed at the same time.
    """
    operands, results = (count * FP64_BYTES * triad_length(rank) for count in TRIAD_VECTORS[rank.accelerated])
    vectors = {"operands": operands, "results": results}
    every = [vectors, *(needs(product, rank) for product in _products(case, rank))]
    largest = max(every, key=lambda needed: sum(needed.values()))
    return {**largest, **({"caches": CACHED} if rank.accelerated else {"small objects": SMALL_OBJECTS})}


def kernels_seconds(case: Case, rank: Rank) -> dict[str, float]:
    """Seconds of a case on ranks like this one, by phase; with compiled kernels on disk."""
    every = _products(case, rank)
    products = [product for product in every if rank.accelerated or not DTYPES[product.dtype].on_gpus]
    speed = SPEED[rank.accelerated] * (1 if rank.accelerated else rank.threads)
    taken = [product.operations / speed for product in products]
    blocks = sum(2 * ROUNDS * (PAUSE_SECONDS + max(BLOCK_SECONDS, each) + each) for each in taken)
    checks = sum(2 * _checked(product) / CHECK_SPEED for product in products)
    return {"ceilings": CEILING_SECONDS[rank.accelerated], "checks": checks, "kernels": blocks}


def _products(case: Case, rank: Rank) -> list[Product]:
    found = requested(case)
    if automatic(case):
        flops = FASTEST_FP64[rank.accelerated] * (1 if rank.accelerated else rank.threads)
        more = squares(automatic_sizes(rank, flops), types_of_squares(case))
        found += [product for product in more if product not in found]
    return found


def _checked(product: Product) -> float:
    """FLOP of a product's check: two products in float64, or some passes over its factors."""
    return 2.0 * product.operations if _by_element(product) else PASSES * sum(_factors(product))


def _by_element(product: Product) -> bool:
    return checked(SPECS[product.kernel], product.layer, product.computed) == EVERY_ELEMENT


def needs(product: Product, rank: Rank) -> dict[str, int]:
    """Bytes of one product by purpose while its providers are measured.

    Two sets of operands take turns.

    A convolution's operands have three layouts, its results two of torch and one of custom. On a GPU each provider has
    its own operands; on a CPU types that no CPU multiplies are drawn too, in fp32.
    """
    computed = product.results
    drawn = sum(product.layer.elements) - (computed if product.of == SQUARE else 0) + _second_set(product)
    if rank.accelerated:
        return _needs_on_gpu(product, drawn, computed)
    operand, result = FP32.nbytes if DTYPES[product.dtype].on_gpus else DTYPES[product.dtype].nbytes
    copies = LAYOUTS if product.kernel == conv2d.SPEC.name else 1
    found = {"operands": copies * drawn * operand, "results": max(2, copies) * computed * result}
    return {**found, "packed": rank.threads * PACKED, "check": _check_bytes(product)}


def _second_set(product: Product) -> int:
    """Elements of the second set of operands: only the smaller operand is drawn anew, as kernels/verify.py does."""
    elements = dict(zip(Tensors._fields, product.layer.elements, strict=True))
    return min(elements[name] for name in OPERANDS[product.computed] if elements[name])


def _needs_on_gpu(product: Product, drawn: int, computed: int) -> dict[str, int]:
    """Bytes go to the host as they are, numbers of 16 bits in fp32."""
    operand, result = DTYPES[product.dtype].nbytes
    copies = LAYOUTS if product.kernel == conv2d.SPEC.name else 1 + WAYS if DTYPES[product.dtype].exact else 2
    brought = FP32.nbytes[1] if result < FP32.nbytes[1] else 0
    return {"operands": copies * drawn * operand, "results": computed * (max(copies, 2) * result + brought)}


def _check_bytes(product: Product) -> int:
    """Float64 copies of the factor that all blocks share and of its squares, and what there is of a block."""
    left, right = _factors(product)
    shared = right * FP64_BYTES * ((product.dtype != "fp64") + _by_element(product))
    shape = product.layer
    if isinstance(shape, attention.Shape):
        return MATRICES * right * FP64_BYTES
    if not isinstance(shape, conv2d.Shape):
        return shared + BLOCKS * FP64_BYTES * min(BLOCK_ELEMENTS, left)
    if product.direction != WEIGHT_GRADIENT:
        return shared + BLOCKS * FP64_BYTES * min(CONVOLUTION_BLOCK, left)
    block = max(CONVOLUTION_BLOCK, prod(shape.kernel) * (prod(shape.y) // shape.filters))
    return shared + right * FP32.nbytes[0] + CHANNEL_BLOCKS * FP64_BYTES * min(block, left)


def _factors(product: Product) -> tuple[int, int]:
    """Elements of L and R, as in the reference."""
    shape = product.layer
    x, w, y = shape.elements
    if isinstance(shape, attention.Shape):
        return y, shape.places * shape.places
    if not isinstance(shape, conv2d.Shape):
        return {FORWARD: (x, w), INPUT_GRADIENT: (y, w), WEIGHT_GRADIENT: (x, y)}[product.computed]
    inner, pixels = w // shape.filters, y // shape.filters
    if product.direction == WEIGHT_GRADIENT:
        return inner * pixels, y
    return (pixels if product.direction == FORWARD else x // shape.channels) * inner, w


PURPOSES = {
    "operands": "two sets of operands of the products, in each provider's layout, and vectors of the triad",
    "results": "results of all providers",
    "small objects": "of Python and libraries",
    "caches": "buffer that overwrites a GPU's caches between calls",
    "packed": "packed blocks of the threads",
    "check": "the check of a result in float64",
}
REQUIREMENTS = Requirements(
    memory=lambda case, device, rank: kernels_memory(case, rank),
    seconds=lambda case, device, rank, ranks: shared(kernels_seconds(case, rank), ranks),
    cure=lambda case: f"other SHAPES, or a smaller BATCH than {case.batch}, need less",
    purposes=PURPOSES,
)
