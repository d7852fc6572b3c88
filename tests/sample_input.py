"""A legal input file, and one made of a few lines, for the tests of the input."""

SMALL = """HPCAI benchmark input file
Example Computing Centre, 2 nodes x 2 accelerators
run7           OUTPUT       name of the result folder

[ensemble]                  image classification by an ensemble
fashion        DATASET      fashion | fashion:PATH
2 1            GROUPS       P: models trained at once
1 2            DEGREE       Q: ranks that train one model
32 64          BATCH        NB: samples per rank and step
0.85           TARGET       quality target
"""


def ensemble(*lines: str) -> str:
    """A legal input whose [ensemble] has some more lines."""
    given = {line.split("#")[0].split()[-1].upper() for line in lines}
    needed = [line for line in ("fashion DATASET", "1 GROUPS", "1 DEGREE", "32 BATCH") if line.split()[1] not in given]
    return "\n".join(["header one", "header two", "[ensemble]", *needed, *lines])
