"""Thousands of damaged inputs: each is parsed or refused in well-formed lines, never a traceback.

The damage is done to the shipped inputs byte by byte, by a generator with a fixed seed: failures are repeatable.
"""

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from launch import BENCH, ROOT, run_job
from test_inputfile_random import reads

from hpcai import main
from hpcai.inputfile.keys import all_keys

MUTATIONS = 2200  # in all, in addition to the examples of test_inputfile_random.py
SHIPPED = [ROOT / "input.dat", *sorted((ROOT / "inputs").glob("*.dat"))]
WORDS = [
    b"\n", b"\r", b"\r\n", b"\t", b" ", b"[", b"]", b"[ensemble]\n", b"[kernels]\n", b"#", b"!", b"=", b":", b",", b"-",
    b"0", b"-1", b"1e3", b"1e309", b"1e-3", b"64K", b"9" * 40, b"0x10", b"1_000", b"nan", b"inf", b"-inf",
    b"1.5", b"00",
    b"\x00", b"\x1b[2J", b"\x7f", b"\x85", b"\xa0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    "١٢٣".encode(), "\u2028".encode(), "\u202e".encode(), "½".encode(), "\u200b".encode(), "é".encode(), b"WR",
    b"fashion:", b"fashion:../../..", b"imagenet:/", b"generated", b"~", b"/" * 300, b"%s%n", b"{0}", b"\\",
]  # fmt: skip
ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "utf-8-sig", "utf-7", "cp500")

Damage = Callable[[random.Random, bytearray], bytes]


def span(rng: random.Random, text: bytes | bytearray, most: int = 80) -> slice:
    start = rng.randrange(len(text) + 1)
    return slice(start, start + rng.randrange(1, most))


def deleted(rng: random.Random, text: bytearray) -> bytes:
    del text[span(rng, text)]
    return bytes(text)


def repeated(rng: random.Random, text: bytearray) -> bytes:
    part = span(rng, text)
    text[part.start : part.start] = bytes(text[part]) * rng.choice((1, 2, 30))
    return bytes(text)


def swapped(rng: random.Random, text: bytearray) -> bytes:
    lines = bytes(text).split(b"\n")
    one, other = (rng.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def bits_flipped(rng: random.Random, text: bytearray) -> bytes:
    for _ in range(rng.randrange(1, 5)):
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    return bytes(text)


def word_put_in(rng: random.Random, text: bytearray) -> bytes:
    place = rng.randrange(len(text) + 1)
    text[place:place] = rng.choice(WORDS)
    return bytes(text)


def value_replaced(rng: random.Random, text: bytearray) -> bytes:
    """A line's first word, which is a value in most lines."""
    lines = bytes(text).split(b"\n")
    line = rng.randrange(len(lines))
    lines[line] = rng.choice(WORDS) + lines[line][len(lines[line].split(b" ")[0]) :]
    return b"\n".join(lines)


def key_replaced(rng: random.Random, text: bytearray) -> bytes:
    one, other = (rng.choice(all_keys()).name.encode() for _ in range(2))
    return bytes(text).replace(one, rng.choice((other, one[:-1], one.lower(), b"")), rng.choice((1, -1)))


def cut_off(rng: random.Random, text: bytearray) -> bytes:
    return bytes(text[: rng.randrange(len(text))])


def encoded(rng: random.Random, text: bytearray) -> bytes:
    return bytes(text).decode(errors="replace").encode(rng.choice(ENCODINGS), "replace")


def spliced(rng: random.Random, text: bytearray) -> bytes:
    other = rng.choice(SHIPPED).read_bytes()
    return bytes(text[: rng.randrange(len(text))]) + other[rng.randrange(len(other)) :]


DAMAGES: tuple[Damage, ...] = (
    deleted, repeated, swapped, bits_flipped, word_put_in, value_replaced, key_replaced, cut_off, encoded, spliced,
)  # fmt: skip


def mutated(seed: int, damages: tuple[Damage, ...] = DAMAGES) -> bytes:
    """A shipped input, damaged one to three times."""
    rng = random.Random(seed)
    text = rng.choice(SHIPPED).read_bytes()
    for damage in rng.choices(damages, k=rng.randrange(1, 4)):
        text = damage(rng, bytearray(text or b"\n"))
    return text


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_inputs_are_read_or_refused(damage: Damage) -> None:
    each = MUTATIONS // (2 * len(DAMAGES))
    verdicts = [reads(mutated(seed, (damage,))) for seed in range(each)]
    assert False in verdicts
    assert damage is encoded or damage is cut_off or True in verdicts


def test_inputs_damaged_in_several_ways_are_read_or_refused() -> None:
    verdicts = [reads(mutated(seed)) for seed in range(MUTATIONS // 2)]
    assert verdicts.count(False) > 500
    assert verdicts.count(True) > 50


@pytest.mark.parametrize("seed", range(8))
def test_the_program_refuses_damaged_inputs_with_a_message(seed: int, tmp_path: Path) -> None:
    """`--check` in this process: a refusal comes before any plan is made, which would only take time."""
    text = next(text for text in map(mutated, range(100 * seed, 100 * seed + 100)) if not reads(text))
    (tmp_path / "input.dat").write_bytes(text)
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main.main(["--check", "--ranks", "4", str(tmp_path / "input.dat")])
    assert (code, printed.getvalue()) == (2, "")
    assert said.getvalue().startswith("hpcai: ")
    assert "Traceback" not in said.getvalue()


def test_the_command_refuses_a_damaged_input_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_bytes(b"\xff\xfe" + (ROOT / "input.dat").read_bytes()[::2])
    job = run_job([BENCH, "--check"], None, tmp_path)
    assert (job.returncode, job.stdout) == (2, "")
    assert job.stderr.startswith("hpcai: ") and "Traceback" not in job.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.dat"]
