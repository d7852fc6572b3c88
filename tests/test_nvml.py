"""GPUs by NVML: a library made for the test replaces the driver's; real GPUs are tested if there are some."""

from pathlib import Path

import pytest
from fake_library import library

from hpcai.machine import device as devices
from hpcai.machine.energy_counters import GpuCounter, NotCountedError
from hpcai.machine.nvml import Gpus, driver_version

# Two GPUs and a part of one (first, second, part), the part without utilisation; handles are pointers to their numbers.
SOURCE = """
#include <string.h>
static int numbers[3] = {0, 1, 2};
typedef struct { unsigned gpu, memory; } utilisation;
typedef struct { unsigned long long total, free, used; } memory;
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetHandleByUUID(const char *name, void **handle) {
    const char *names[3] = {"GPU-first", "GPU-second", "MIG-part"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) { *handle = &numbers[i]; return 0; }
    return 6;
}
int nvmlDeviceGetUtilizationRates(void *handle, utilisation *found) {
    int number = *(int *)handle;
    found->gpu = number ? 40 : 100;
    found->memory = 99;
    return number == 2 ? 3 : 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *found) {
    static unsigned long long taken[2];
    int number = *(int *)handle;
    if (number == 2) return 3;
    *found = 1000000 + (taken[number] += 2500);
    return 0;
}
typedef struct { unsigned field, scope; long long time, latency; int type, answer; unsigned long long value; } field;
int nvmlDeviceGetFieldValues(void *handle, int count, field *found) {
    int number = *(int *)handle;
    for (int i = 0; i < count; i++) {
        found[i].answer = number == 2 ? 3 : 0;
        found[i].value = found[i].scope != 0xffffffff ? 1 : found[i].field == 139 ? 10 + number : 1ULL << 40;
    }
    return found[0].field == 139 && found[1].field == 138 ? 0 : 2;
}
int nvmlDeviceGetMaxClockInfo(void *handle, int type, unsigned *found) {
    int number = *(int *)handle;
    *found = type == 1 ? 1980 - number : 1;
    return number == 2 ? 3 : 0;
}
int nvmlSystemGetDriverVersion(char *told, unsigned length) { strncpy(told, "580.65.06", length); return LENT; }
int nvmlDeviceGetMemoryInfo(void *handle, memory *found) {
    found->total = 1ULL << 40;
    found->free = 5;
    found->used = (1ULL << 36) * (1 + *(int *)handle);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("identities", "share", "used"),
    [
        (["GPU-first"], 1.0, 2**36),
        (["GPU-first", "GPU-second"], 0.7, 1.5 * 2**36),
        (["MIG-part"], None, 3 * 2**36),
        (["GPU-first", "MIG-part"], None, 2 * 2**36),
        (["GPU-first", "GPU-unheard of"], None, None),
        (["GPU-part"], None, None),
        ([], None, None),
    ],
)
def test_means_of_the_gpus_need_values_of_all(identities: list[str], share: float, used: float, tmp_path: Path) -> None:
    gpus = Gpus(identities, library(SOURCE, tmp_path, INIT=0, LENT=0))
    assert (gpus.utilisation(), gpus.used_bytes()) == (share, used)


@pytest.mark.parametrize(
    ("identities", "joules"),
    [(["GPU-first"], 2.5), (["GPU-first", "GPU-second"], 5.0), (["GPU-first", "MIG-part"], None), ([], None)],
)
def test_energy_since_the_beginning_needs_values_of_all(
    identities: list[str], joules: float | None, tmp_path: Path
) -> None:
    gpus = Gpus(identities, library(SOURCE, tmp_path, INIT=0, LENT=0))
    for _ in range(2):
        begun, now = gpus.joules(), gpus.joules()
        assert (None if begun is None or now is None else now - begun) == joules


@pytest.mark.parametrize(
    ("identities", "received"),
    [(["GPU-first", "GPU-second"], [10240, 11264]), (["GPU-second", "MIG-part"], None), ([], None)],
)
def test_bytes_of_nvlink_are_those_of_all_links_of_each_gpu(
    identities: list[str], received: list[int] | None, tmp_path: Path
) -> None:
    found = Gpus(identities, library(SOURCE, tmp_path, INIT=0, LENT=0)).nvlink_bytes()
    if received is None:
        assert found is None
    else:
        assert found and [[*each.values()] for each in found] == [received, [2**50] * len(received)]


def test_a_driver_that_has_no_fields_has_no_nvlink(tmp_path: Path) -> None:
    source = SOURCE.replace("nvmlDeviceGetFieldValues", "nvmlDeviceGetOther")
    assert Gpus(["GPU-first"], library(source, tmp_path, INIT=0, LENT=0)).nvlink_bytes() is None


def test_energy_of_a_restarted_driver_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([1000.0, 3.0])
    made = Gpus(["GPU-first"], library(SOURCE, tmp_path, INIT=0, LENT=0))
    monkeypatch.setattr(made, "joules", lambda: next(readings))
    counter = GpuCounter(made)
    counter.begin()
    with pytest.raises(NotCountedError, match="went back from 1000 to 3 J"):
        counter.joules()


def test_without_a_working_library_nothing_is_known(tmp_path: Path) -> None:
    gpus = Gpus(["GPU-first"], library(SOURCE, tmp_path, INIT=9, LENT=0))
    assert gpus.utilisation() is gpus.used_bytes() is None


def test_without_a_library_nothing_is_known(tmp_path: Path) -> None:
    gpus = Gpus(["GPU-first"], str(tmp_path / "missing.so"))
    assert gpus.utilisation() is gpus.used_bytes() is None


def test_the_drivers_version_is_read_or_unknown(tmp_path: Path) -> None:
    assert driver_version(library(SOURCE, tmp_path, INIT=0, LENT=0)) == "580.65.06"
    for start, lent in ((9, 0), (0, 7)):
        assert driver_version(library(SOURCE, tmp_path, INIT=start, LENT=lent)) == "unknown"
    assert driver_version(str(tmp_path / "missing.so")) == "unknown"


@pytest.mark.skipif(devices.accelerators() == 0, reason="NO GPU: REAL NVML NOT TESTED")
def test_a_real_gpu_reports_its_utilisation_and_memory() -> None:
    import torch

    device = devices.first()
    gpus = Gpus([devices.identity(device)])
    before = gpus.used_bytes()
    x = torch.ones(8192, 8192, device=device)
    shares = []
    for _ in range(20):
        for _ in range(50):
            x = x @ x / 8192
        torch.cuda.synchronize(device)
        shares.append(gpus.utilisation())
    after = gpus.used_bytes()
    assert before is not None and after is not None and after >= before + x.nbytes
    assert shares[-1] is not None and 0.5 < max(share for share in shares if share is not None) <= 1


@pytest.mark.parametrize(
    ("identities", "clock"),
    [(["GPU-first"], 1.98e9), (["GPU-second"], 1.979e9), (["GPU-first", "GPU-second"], 1.98e9), (["MIG-part"], None)],
)
def test_the_largest_clock_of_the_multiprocessors(identities: list[str], clock: float | None, tmp_path: Path) -> None:
    assert Gpus(identities, library(SOURCE, tmp_path, INIT=0, LENT=0)).highest_clock() == clock
    assert Gpus([]).highest_clock() is None
