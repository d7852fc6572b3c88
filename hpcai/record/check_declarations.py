"""The checks of trainings and searches: printed name, limit and sentence of each, declared once."""

from dataclasses import dataclass

from hpcai.record.entry import Check

TERM_LOST = 0.25  # of a term of the update: half of one rank's gradient exceeds it, as does a zeroed layer
MOST_ABOVE = 5.0  # standard errors
MOST_OFF = 8.0  # of any tensor of any rank: chance 1e-15 of each


@dataclass(frozen=True)
class CheckDeclaration:
    """A check: its printed name, the largest value that passes, and its sentence in docs/METRICS.md.

    limit: None where a KEY of the input is the limit, whose name is in limit_key.
    above: whether values above the limit pass, and not those up to it. absent: printed where nothing can be checked.
    """

    name: str
    description: str
    limit: float | None = 0.0
    limit_key: str = ""
    above: bool = False
    absent: str = ""

    @property
    def limit_text(self) -> str:
        """The limit as docs/METRICS.md has it."""
        return f"`{self.limit_key}`" if self.limit is None else f"{'above ' if self.above else ''}{self.limit:g}"

    def of(self, value: float, limit: float | None = None) -> Check:
        """The check of a measured value; `limit` where it is not declared. A NaN never passes."""
        bound = self.limit if limit is None else limit
        assert bound is not None, "a limit that is a KEY is given with the value"
        passed = value > bound if self.above else value <= bound
        return Check(name=self.name, value=value, limit=bound, verdict="PASSED" if passed else "FAILED")

    def not_checked(self) -> Check:
        """The check where nothing can be checked."""
        assert self.limit is not None, "only checks whose limit is declared can be left out"
        return Check(name=self.name, value=None, limit=self.limit, verdict="NOT CHECKED")


RESIDUAL = CheckDeclaration(
    "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)",
    "HPL's scaled residual of the products at all layer shapes; the largest",
    limit=None,
    limit_key="RESIDUAL",
)
ELEMENTWISE = CheckDeclaration(
    "max|C-L*R|/(8*sqrt(N)*u*sqrt((LoL)*(RoR)))",
    "element-wise residual of the same products, results stored in fp32; the largest",
    limit=1.0,
)
ROUNDED_ELEMENTWISE = CheckDeclaration(
    "max|C-LR|/(8*sqrt(N)*u*sqrt((LoL)(RoR))+v*|LR|)",
    "element-wise residual of the same products, results stored in 16 bits; the largest",
    limit=1.0,
)
WRONG = CheckDeclaration(
    "forward products of int8: wrong elements",
    "`int8` only: elements that differ in a bit from scale x exact integer sum; the product with the most",
)
LOSS = CheckDeclaration(
    "loss deviation from vendor / rounding bound",
    "`KERNELS` other than `vendor` only: largest difference of a training or evaluation loss / its bound",
    limit=1.0,
)
GRADIENT = CheckDeclaration(
    "gradient deviation from vendor / bound",
    "the same for gradients: norm of a layer's difference / its bound; the worst layer",
    limit=1.0,
)
STATISTICS = CheckDeclaration(
    "statistics deviation from vendor / bound",
    "the same for running statistics of batch norms; the worst layer",
    limit=1.0,
)
NETWORK = CheckDeclaration(
    "network: worst deviation from the reference",
    "difference of an output or a layer's from a NumPy forward pass / bound, before the first step; of fp64 copies at "
    "1e-8, in training and evaluation; in the network's own precision by rounding, in training; of detectors up to the "
    "proposals; NOT CHECKED where models are divided or need more than 2^33 multiplications",
    limit=1.0, absent="n/a, not compared",
)
WEIGHTS = CheckDeclaration(
    "initial weights: standard errors off their rule",
    "mean, variance and spread of the initial weights against the distribution that the papers give; the worst tensor; "
    "constants are exact",
    limit=MOST_OFF,
)
SUMS = CheckDeclaration(
    "all-reduce of integers: wrong elements",
    "elements that differ from the sum known in advance, of as many integers as gradients by the path that trains, and "
    "of up to 4096 by MPI; PARALLEL tensor: also sums over shards by the path of norms; WIRE int8: also elements of a "
    "sum that were neither sent nor kept",
)
SAME_WEIGHTS = CheckDeclaration(
    "parameters and statistics: differing ranks",
    "ranks with a bit of weights or running statistics other than their group's first rank, after training",
)
MODEL_SAMPLES = CheckDeclaration(
    "epochs with wrong training samples, all models",
    "epochs whose samples, by number and fingerprint, are not those that seed, model and epoch give; all models",
)
TRIAL_SAMPLES = CheckDeclaration(
    "epochs with wrong training samples, all trials",
    "epochs whose samples, by number and fingerprint, are not those that seed, trial and epoch give; all trials",
)
DEVIATION = CheckDeclaration(
    "replayed steps: worst deviation of the update",
    "deviation of an update from its float64 formula, of running statistics or kept errors / bound; the worst tensor",
    limit=1.0,
)
LOST = CheckDeclaration(
    "replayed steps: largest share of a term lost",
    "share of a term of the update formula that is missing or doubled; the worst of all replayed steps",
    limit=TERM_LOST,
)
CHANGED = CheckDeclaration(
    "weights changed outside of steps: ranks",
    "times that the bits of weights, statistics or momentum differ from those after the last step; all ranks",
)
STALE = CheckDeclaration(
    "gradients missing or of an earlier step: tensors",
    "tensors whose gradient is missing in a step, or equals that of an earlier step of the epoch in 6 to 8 elements; "
    "all ranks and steps",
)
STILL = CheckDeclaration(
    "tensors that did not move in a step",
    "tensors of which up to 8 elements stayed as they were in a step whose rule moves them by more than 2 spacings of "
    "their type; all ranks and epochs",
)
OUTSIDE = CheckDeclaration(
    "steps outside of the training time",
    "backward passes and updates that ran outside of the training time, and steps credited but not updated in it; all "
    "ranks",
)
TEST_CLOCKS = CheckDeclaration(
    "time of the test by two clocks: deviation",
    "|time of the whole test - seconds by a second clock| / (1e-3 of these + 0.01 s); the worst rank",
    limit=1.0,
)
ACCOUNTED = CheckDeclaration(
    "time not in phases or between them: share",
    "|phases + time between them - their time by the second clock| / (0.01 of this + 0.01 s), from before set-up to "
    "the last phase, without staging, start-up and interruptions; the worst rank",
    limit=1.0,
)
TRAINING_CLOCKS = CheckDeclaration(
    "training time by two clocks: deviation",
    "|training time - seconds by a second clock| / (1e-3 of these + 0.01 s), or |training time - seconds of all steps| "
    "/ (0.01 of the training time + 0.01 s), if that is larger; a training time that is longer may be so by 0.5 s a "
    "part, for a busy machine interrupts processes; the worst rank; a part is an epoch, or what a checkpoint leaves of "
    "it",
    limit=1.0,
)
OTHERS = CheckDeclaration(
    "evaluations of weights other than the last",
    "evaluations in which checksums of weights and statistics, at the first batch or at the end, are not those that "
    "the training left; all ranks",
)
FINITE = CheckDeclaration(
    "loss not finite: models",
    "models with a mean loss of an epoch, an output or, of detectors, a weight that is not finite",
)
EXECUTED = CheckDeclaration(
    "operations credited, not executed: samples",
    "|credited + skipped - executed operations| / operations per sample; of searches the sum over the trials",
)
VALIDATED = CheckDeclaration(
    "validation samples not evaluated exactly once",
    "validation samples missing, counted twice or exchanged; all validations",
)
EVALUATED = CheckDeclaration(
    "evaluation: worst deviation of outputs",
    "difference of a sample's outputs from those by the simple path of replays / bound; the worst sample of a batch of "
    "the validation that each rank draws, after the training, or after a group's first trial and one in 8 of others; "
    "9999999 if the validation found another class than these outputs allow; not of detectors",
    limit=1.0,
)
RECOUNTED = CheckDeclaration(
    "predictions and votes: counts not confirmed",
    "classifiers only: validations whose correct samples, and figures of the ensemble (correct, agreeing pairs, "
    "members, out of bag, votes) that a second implementation counts otherwise, by kept classes and labels read anew",
)
CEILING = CheckDeclaration(
    "quality above the ceiling: standard errors",
    "generated data only: max(0, quality - ceiling) / standard error, of language models that of their differences "
    "from the source sequence by sequence; NOT CHECKED for other data",
    limit=MOST_ABOVE, absent="n/a, no ceiling",
)
REPEATED = CheckDeclaration(
    "models with the weights of the next one",
    "P > 1 only: models whose last weights and statistics are those of the next one (of the last: the first), bit "
    "for bit",
)
DISAGREEMENT = CheckDeclaration("pairwise disagreement of models, not 0", "older results only, P > 1", above=True)
BOUND = CheckDeclaration(
    "FLOPS of a rank / bound of its processor",
    "FLOPS / (P x Q) / (1.1 x measured cycles per second x widest known units x threads x nominal / least "
    "operations); of searches also the rate of the training phases; of GPUs the largest clock and all multiprocessors; "
    "NOT CHECKED for unknown processors",
    limit=1.0, absent="n/a, unknown processor",
)
CLAIMS = CheckDeclaration(
    "raw measurements: violated claims",
    "violated claims about the raw measurements, from input, seed and network; NOT CHECKED if another check FAILED",
    absent="n/a, test failed",
)
RECIPE = CheckDeclaration(
    "recipe of audited steps: worst deviation",
    "relative deviation of rate, hyper-parameters, batch, or losses of drawn outputs from a formula of the input",
    limit=1e-9,
)
ORDER = CheckDeclaration(
    "samples of audited and of random steps, wrong",
    "samples other than those that seed, model and epoch of the input give by a second implementation; of audited "
    "steps and of some steps drawn from the system's entropy",
)
DELIVERED = CheckDeclaration(
    "delivered samples: worst deviation / bound",
    "difference of a sample, as it arrived at a network, from its source read anew / bound of fp32; labels and boxes "
    "are exact; some of each epoch and evaluation, drawn from the system's entropy, and replayed batches",
    limit=1.0, absent="n/a, data unknown",
)
SEEN = CheckDeclaration(
    "validations that saw other content",
    "validations and evaluations of the ensemble with another sum over pixels and labels than the first one; all ranks",
)
PUBLISHED = CheckDeclaration(
    "published data: splits of other content",
    "Fashion-MNIST only: splits of other pixels or labels than the published ones (SHA-256)",
    absent="n/a, not published",
)
SHARED = CheckDeclaration(
    "validation samples in training, above allowed",
    "validation samples that are training samples as well, less the number that may be",
    absent="n/a, not compared",
)
BESIDE = (STALE, STILL, OUTSIDE, TRAINING_CLOCKS, OTHERS)  # checks beside a training that older results lack
TRAINING_CHECKS = (
    *(RESIDUAL, ELEMENTWISE, ROUNDED_ELEMENTWISE, WRONG, LOSS, GRADIENT, STATISTICS, NETWORK, WEIGHTS),
    *(SUMS, SAME_WEIGHTS),
    *(MODEL_SAMPLES, DEVIATION, LOST, CHANGED, *BESIDE, RECIPE, ORDER, DELIVERED, SEEN, PUBLISHED, SHARED),
    *(FINITE, EXECUTED, VALIDATED, EVALUATED, RECOUNTED, CEILING, REPEATED, DISAGREEMENT, BOUND),
    *(ACCOUNTED, TEST_CLOCKS, CLAIMS),
)
