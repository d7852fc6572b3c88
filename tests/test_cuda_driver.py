"""Identities of GPUs: a library made for the test replaces CUDA's driver; the real driver is tested if there is one."""

import re
from pathlib import Path

import pytest
from fake_library import library

from hpcai.machine import cuda_driver

# Two GPUs, a part of a third, and a part of a GPU that its driver describes like the whole, except for its name.
SOURCE = """
#include <string.h>
static const char *names[4] = {"Example 9000", "Example 9000", "Example 9000 MIG 1g.5gb", "Example MIG 3g.20gb"};
static const unsigned char wholes[4] = {0x10, 0x11, 0x12, 0x13}, owns[4] = {0x10, 0x11, 0xaa, 0x13};
int cuInit(unsigned flags) { return flags ? 1 : INIT; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int number) { *device = 100 + number; return number == BROKEN ? 101 : 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, names[device - 100], length); return 0; }
static int uuid(unsigned char *found, unsigned char last) { memset(found, 0, 16); found[15] = last; return 0; }
int cuDeviceGetUuid(unsigned char *found, int device) { return uuid(found, wholes[device - 100]); }
#if !OLD
int cuDeviceGetUuid_v2(unsigned char *found, int device) { return uuid(found, owns[device - 100]); }
#endif
"""
ZEROS = "00000000-0000-0000-0000-0000000000"
ALL = tuple(f"{kind}{ZEROS}{last}" for kind, last in (("GPU-", 10), ("GPU-", 11), ("MIG-", "aa"), ("MIG-", 13)))


def identities_of(
    folder: Path, count: int = 4, start: int = 0, old: int = 0, broken: int = -1
) -> tuple[str, ...] | None:
    return cuda_driver.identities(library(SOURCE, folder, COUNT=count, INIT=start, OLD=old, BROKEN=broken))


def test_gpus_and_their_parts_are_listed_by_number(tmp_path: Path) -> None:
    assert identities_of(tmp_path) == ALL
    assert identities_of(tmp_path, count=1) == ALL[:1]


def test_a_driver_without_parts_lists_gpus(tmp_path: Path) -> None:
    assert identities_of(tmp_path, count=2, old=1) == ALL[:2]


def test_no_device_is_distinguished_from_no_driver(tmp_path: Path) -> None:
    assert identities_of(tmp_path, start=cuda_driver.NO_DEVICE) == identities_of(tmp_path, count=0) == ()
    assert identities_of(tmp_path, start=803) is None  # the driver does not match its library
    assert identities_of(tmp_path, broken=1) is None  # one query fails
    assert cuda_driver.identities(str(tmp_path / "missing.so")) is None


@pytest.mark.skipif(not cuda_driver.identities(), reason="NO GPU: REAL DRIVER NOT ASKED")
def test_a_real_driver_lists_the_same_gpus_as_nvidia_smi() -> None:
    found = cuda_driver.identities() or ()
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", identity) for identity in found)
