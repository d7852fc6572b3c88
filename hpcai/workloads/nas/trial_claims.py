"""Claims about each trial of a search: parent, choices, epochs, work, validations."""

from hpcai.networks.digest import digest
from hpcai.results.alterations import Alteration, changed, repeated, together
from hpcai.results.claim import Claim, Subject
from hpcai.workloads.nas import descent_claims as descent
from hpcai.workloads.nas import epoch_claims as epochs
from hpcai.workloads.nas.search_claims import replayed
from hpcai.workloads.nas.searched_trials import of_trials, search_of


def _different(subject: Subject) -> bool:
    search = search_of(subject)
    digests = [digest(graph) for graph in search.graphs.values()]
    return replayed(subject.case) or len({*digests}) == len(digests)


def trial_claims(where: str) -> tuple[Claim, ...]:
    """Claims about every trial, also of a search that was broken off."""

    def of(field: str, value: object, trial: int = 0) -> Alteration:
        return changed(f"{where}trials.{trial}.{field}", value)

    same = together(of("morphisms", [], 8), of("operation", "initial", 8))
    widest = {"operation": "widen", "layer": "stage1_block1_conv1", "channels": 500}
    return (
        Claim("trials: of different networks", _different, same),
        Claim("trials: operation of the first morphism", of_trials(descent.operation), of("operation", "skip", 1)),
        Claim("trials: deviation 0 of unchanged networks", of_trials(descent.unchanged), of("deviation", 1e-12)),
        Claim("trials: parents have not failed", of_trials(descent.parent_lives), of("end", "diverged")),
        Claim(
            "trials: weights that the parent ended with",
            of_trials(descent.parent_weights),
            together(
                changed(f"{where}trials.*.weights_sha256", "0" * 64),
                changed(f"{where}trials.*.parent_sha256", "1" * 64),
            ),
        ),
        Claim(
            "trials: parents of rounds that REPLAY lets them use",
            of_trials(descent.parent_is_known),
            changed("settings.REPLAY", "rounds"),
            example="rounds",
        ),
        Claim("trials: batch sizes that are searched", of_trials(descent.batch), of("hyperparameters.batch", 64)),
        Claim("trials: kernel sizes that are searched", of_trials(descent.kernel), of("hyperparameters.kernel", 7)),
        Claim(
            "trials: added convolutions as large as the kernel size",
            of_trials(descent.kernels),
            of("hyperparameters.kernel", 7, 8),
        ),
        Claim("trials: DEPTH", of_trials(descent.depth), changed("settings.DEPTH", 1), example="shallow"),
        Claim("trials: PARAMETERS", of_trials(descent.parameters), changed("settings.PARAMETERS", 1), example="small"),
        Claim(
            "trials: as many morphisms as a proposal",
            of_trials(descent.morphisms),
            of("morphisms", [{**widest, "channels": 50 + step} for step in range(4)], 8),
        ),
        Claim(
            "trials: layers widened as far as by a proposal", of_trials(descent.widens), of("morphisms", [widest], 8)
        ),
        Claim("trials: planned_epochs by EPOCHS and round", of_trials(epochs.planned), of("planned_epochs", 2)),
        Claim("trials: epochs in order", of_trials(epochs.epochs), of("curve.0.epoch", 2)),
        Claim("trials: all planned epochs and no more", of_trials(epochs.length), repeated(f"{where}trials.0.curve.0")),
        Claim("trials: cut in their last epoch only", of_trials(epochs.cut), of("curve.0.correct", None)),
        Claim("trials: ended by PATIENCE when it says", of_trials(epochs.patience), of("end", "patience")),
        Claim("trials: losses of every epoch", of_trials(epochs.losses), of("curve.0.loss", None)),
        Claim("trials: samples of the shard", of_trials(epochs.samples), of("curve.0.samples", 7)),
        Claim("trials: steps of the samples", of_trials(epochs.steps), of("steps", 77)),
        Claim("trials: every validation sample, each once", of_trials(epochs.counted), of("curve.0.counted", 7)),
        Claim("trials: correct <= validation_samples", of_trials(epochs.correct), of("curve.0.correct", 10**6)),
        Claim(
            "trials: validation losses as large as their errors make them",
            of_trials(epochs.loss_of_errors),
            of("curve.0.validation_loss", 0.01),
        ),
    )
