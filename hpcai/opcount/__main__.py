"""`python -P -m hpcai.opcount NETWORK --image 224 --rule model`: a table of operations per image, or one JSON object.

A detector needs no more than its name: it is counted for climate fields, part by part, by all rules. A language model
is counted for a sequence of bytes, `--image 1x512`; 6 operations a parameter and byte, a common approximation, stand
below its table (Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1).
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

from hpcai.errors import InputError
from hpcai.networks import DECODING, DETECTING, NAMES, VARIANTS, build
from hpcai.networks.faster_rcnn import PARTS, part
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Pair
from hpcai.opcount import RULES, Count, LayerCount, count

IMAGES = {"channels": 3, "classes": 1000}
FIELDS = {"image": (768, 1152), "channels": 16, "classes": 4}  # of the published ExtremeWeather set
SEQUENCES = {"image": (1, 512), "channels": 1, "classes": 256}  # of bytes
APPROXIMATION = 6  # operations of a parameter and byte, forward and backward


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(InputError.exit_code, f"{self.prog}: error: {message}\n")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the count the arguments ask for; one line on stderr and exit 2 if they are illegal."""
    parser = _parser()
    asked = parser.parse_args(argv)
    _complete(parser, asked)
    try:
        graph = build(asked.network, asked.image, asked.channels, asked.classes, asked.variant)
    except InputError as error:
        parser.error(str(error))
    if asked.rule is None:
        print("\n".join(_parts(asked, graph)))
        return
    counted = count(graph, asked.rule)
    print(json.dumps(_document(asked, counted)) if asked.json else "\n".join(_table(asked, graph, counted)))


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="hpcai.opcount", description="Operations of one training image, by rule and kind of layer."
    )
    parser.add_argument("network", metavar="NETWORK", help=", ".join((*NAMES, *DETECTING, *DECODING)))
    parser.add_argument("--image", type=_image, metavar="SIZE", help="224, or height x width: 224x160")
    parser.add_argument("--variant", choices=VARIANTS, default="v1.5", help="default v1.5")
    parser.add_argument("--classes", type=_whole, metavar="N", help="default 1000, of detectors 4")
    parser.add_argument("--channels", type=_whole, metavar="N", help="default 3, of detectors 16")
    parser.add_argument("--rule", choices=tuple(RULES))
    parser.add_argument("--json", action="store_true", help="one JSON object with a row for each layer")
    return parser


def _complete(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    """Set missing arguments to their defaults; an error where there is none."""
    detects = asked.network in DETECTING
    for name, default in (FIELDS if detects else SEQUENCES if asked.network in DECODING else IMAGES).items():
        if getattr(asked, name) is None:
            setattr(asked, name, default)
    needed = [] if detects and not asked.json else ["rule"]
    missing = [f"--{name}" for name in ("image", *needed) if getattr(asked, name) is None]
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}")


def _whole(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _image(text: str) -> Pair:
    if not re.fullmatch("[0-9]{1,9}(x[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a size such as 224 nor height x width such as 224x160")
    height, _, width = text.partition("x")
    return int(height), int(width or height)


def _document(asked: argparse.Namespace, counted: Count) -> dict[str, object]:
    return {
        "network": asked.network,
        "variant": asked.variant,
        "image": list(asked.image),
        "channels": asked.channels,
        "classes": asked.classes,
        "rule": counted.rule,
        "forward": counted.forward,
        "backward": counted.backward,
        "total": counted.total,
        "layers": [asdict(layer) for layer in counted.layers],
    }


def _table(asked: argparse.Namespace, graph: Graph, counted: Count) -> list[str]:
    title = f"{_title(asked)} by rule {counted.rule}"
    header = f"{'kind':<12}{'layers':>7}{'forward':>20}{'backward':>20}{'total':>20}{'GFLOP':>14}"
    kinds = {layer.kind: [row for row in counted.layers if row.kind == layer.kind] for layer in counted.layers}
    rule = "-" * len(header)
    rows = [_row(kind, layers) for kind, layers in kinds.items()]
    return [title, "", header, rule, *rows, rule, _row("total", counted.layers), *_approximated(asked, graph)]


def _approximated(asked: argparse.Namespace, graph: Graph) -> list[str]:
    """The approximation that is published for language models."""
    if asked.network not in DECODING:
        return []
    parameters, places = sum(graph.parameters.values()), asked.image[1]
    whole = APPROXIMATION * parameters * places
    return [f"{APPROXIMATION} x {parameters:,} parameters x {places} bytes: {whole:,}, {whole / 1e9:.6f} GFLOP"]


def _title(asked: argparse.Namespace) -> str:
    height, width = asked.image
    if asked.network in DECODING:
        return f"{asked.network}, sequence of {width} bytes: operations per sequence"
    size = f"image {asked.channels} x {height} x {width}, {asked.classes} classes"
    return f"{asked.network} {asked.variant}, {size}: operations per image"


def _parts(asked: argparse.Namespace, graph: Graph) -> list[str]:
    """A row for each rule and part of the network."""
    header = f"{'rule':<10}{'part':<12}{'layers':>7}{'forward':>20}{'backward':>20}{'total':>20}{'GFLOP':>14}"
    lines = [f"{_title(asked)} by part", "", header]
    for rule in RULES:
        rows = count(graph, rule).layers
        lines.append("-" * len(header))
        parts = {name: [row for row in rows if part(row.name) == name] for name in PARTS}
        lines += [f"{rule:<10}{_row(name, layers)}" for name, layers in {**parts, "total": rows}.items()]
    return lines


def _row(kind: str, layers: Sequence[LayerCount]) -> str:
    forward = sum(layer.forward for layer in layers)
    backward = sum(layer.backward for layer in layers)
    total = forward + backward
    return f"{kind:<12}{len(layers):>7}{forward:>20,}{backward:>20,}{total:>20,}{total / 1e9:>14.6f}"


if __name__ == "__main__":
    main()
