"""Claims about loading in `[weather]`: bytes read, and memory of the training frames."""

from collections.abc import Callable

from hpcai.claims.loading_claims import loading_claims, trained, unused
from hpcai.claims.training_claims import SAMPLES_IN_MEMORY
from hpcai.data.dataset_paths import GENERATED
from hpcai.detections.detection_tables import TRUE
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject
from hpcai.workloads.weather.data_claims import FILES
from hpcai.workloads.weather.record import WeatherRaw

BOX_BYTES = 4 * 5 * TRUE  # of a frame's boxes


def _of_raw(holds: Callable[[Case, WeatherRaw], bool]) -> Callable[[Subject], bool]:
    return lambda subject: holds(subject.case, subject.entry.raw)


def _generated(case: Case, raw: WeatherRaw) -> bool:
    found = raw.loading
    return case.dataset != GENERATED or found.bytes_read == found.read_seconds == found.decompress_seconds == 0


def _seconds(case: Case, raw: WeatherRaw) -> bool:
    return raw.loading.bytes_read > 0 or raw.loading.read_seconds == raw.loading.decompress_seconds == 0


def _values(data: Dataset) -> int:
    """Numbers of a frame."""
    channels, height, width = data.shape
    return channels * height * width


def _frames_read(subject: Subject) -> bool:
    """Packed frames have 2 bytes a number, and each is read whenever it is trained on."""
    raw, data = subject.entry.raw, subject.entry.memory.data
    if data is None or data.image_bytes != 2 * _values(raw.dataset):
        return True
    return bool(raw.loading.bytes_read == trained(subject) * data.image_bytes)


def _frame_bytes(subject: Subject) -> bool:
    """fp32 as generated and published, or 16 bits as packed."""
    values, data = _values(subject.entry.raw.dataset), subject.entry.memory.data
    packed = subject.case.dataset != GENERATED
    return data is not None and data.image_bytes in ((4 * values, 2 * values) if packed else (4 * values,))


def _boxes(subject: Subject) -> bool:
    """The boxes of all frames are in memory, twice if staged; for files also some tables."""
    data, dataset = subject.entry.memory.data, subject.entry.raw.dataset
    if data is None:
        return False
    copies = 1 if subject.case.stage == "none" else 2
    boxes = copies * BOX_BYTES * (dataset.training_samples + dataset.validation_samples)
    return data.data_bytes == boxes if subject.case.dataset == GENERATED else data.data_bytes >= boxes


def _held_bytes(subject: Subject) -> int:
    """Bytes of a frame that is not compressed."""
    data = subject.entry.memory.data
    return data.image_bytes if data else 0


LOADING = (
    *loading_claims(trained, unused, _held_bytes),
    Claim("loading: nothing is read of generated fields", _of_raw(_generated), changed("raw.loading.bytes_read", 1)),
    Claim(
        "loading: seconds only where something is read",
        _of_raw(_seconds),
        changed("raw.loading.read_seconds", 1.0),
    ),
    Claim(
        "loading: packed frames, each time they are trained on",
        _frames_read,
        changed("raw.loading.bytes_read", 1),
        FILES,
    ),
    SAMPLES_IN_MEMORY,
    Claim("memory.data: image_bytes of the dataset's shape", _frame_bytes, changed("memory.data.image_bytes", 9)),
    Claim("memory.data: data_bytes of the boxes", _boxes, changed("memory.data.data_bytes", 9)),
)
