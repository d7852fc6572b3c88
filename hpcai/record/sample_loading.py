"""Record of the loading of training samples, and the rates that follow from it; the same in every workload that trains.

A loader counts what its loading thread makes ready: also the batches that an end of time leaves unused, neither warm-up
nor validation.
"""

from typing import Annotated

from hpcai.record.record import Count, Record, Seconds, about


class Loading(Record, kw_only=True):
    """Loading of the training samples in the timed region, summed over all ranks; no count in older results."""

    loaded_samples: Annotated[
        Count | None,
        about("samples made ready, also those of skipped steps and of batches that an end of time left unused"),
    ] = None
    loaded_bytes: Annotated[
        Count | None,
        about(
            "bytes of these samples as the dataset gives them, decompressed, before crops and normalisation: read from "
            "files or memory; generated where nothing is stored",
            unit="B",
        ),
    ] = None
    load_seconds: Annotated[
        Seconds,
        about(
            "time of the loading threads: reading, decompressing or generating, and on the host cropping and "
            "normalising; without waiting for the training to take a batch",
            unit="s",
        ),
    ]
    wait_seconds: Annotated[Seconds | None, about("time in which devices waited for a batch", unit="s")] = None


SampleRate = Annotated[
    float | None,
    about(
        "loading.loaded_samples / mean time of the loading threads, loading.load_seconds / (P x Q): all ranks together",
        unit="1/s",
        label="read rate while loading, samples/s",
        absent="n/a, not measured",
        csv=True,
    ),
]
ByteRate = Annotated[
    float | None,
    about(
        "loading.loaded_bytes / the same time",
        unit="B/s",
        label="read rate while loading, GB/s",
        scale=1e9,
        absent="n/a, not measured",
        csv=True,
    ),
]
