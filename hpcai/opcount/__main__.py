"""`python -m hpcai.opcount NETWORK --image 224 --rule model`: a table of operations per image, or one JSON object."""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

from hpcai.errors import InputError
from hpcai.networks import NAMES, VARIANTS, build
from hpcai.networks.layers import Pair
from hpcai.opcount import RULES, Count, LayerCount, count


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(InputError.exit_code, f"{self.prog}: error: {message}\n")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the count the arguments ask for; one line on stderr and exit 2 if they are illegal."""
    parser = _parser()
    asked = parser.parse_args(argv)
    try:
        graph = build(asked.network, asked.image, asked.channels, asked.classes, asked.variant)
    except InputError as error:
        parser.error(str(error))
    counted = count(graph, asked.rule)
    print(json.dumps(_document(asked, counted)) if asked.json else "\n".join(_table(asked, counted)))


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="hpcai.opcount", description="Operations of one training image, by rule and kind of layer."
    )
    parser.add_argument("network", metavar="NETWORK", help=", ".join(NAMES))
    parser.add_argument("--image", type=_image, required=True, metavar="SIZE", help="224, or height x width: 224x160")
    parser.add_argument("--variant", choices=VARIANTS, default="v1.5", help="default v1.5")
    parser.add_argument("--classes", type=_whole, default=1000, metavar="N", help="default 1000")
    parser.add_argument("--channels", type=_whole, default=3, metavar="N", help="default 3")
    parser.add_argument("--rule", choices=tuple(RULES), required=True)
    parser.add_argument("--json", action="store_true", help="one JSON object with a row for each layer")
    return parser


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


def _table(asked: argparse.Namespace, counted: Count) -> list[str]:
    height, width = asked.image
    title = (
        f"{asked.network} {asked.variant}, image {asked.channels} x {height} x {width}, {asked.classes} classes: "
        f"operations per image by rule {counted.rule}"
    )
    header = f"{'kind':<12}{'layers':>7}{'forward':>20}{'backward':>20}{'total':>20}{'GFLOP':>14}"
    kinds = {layer.kind: [row for row in counted.layers if row.kind == layer.kind] for layer in counted.layers}
    rule = "-" * len(header)
    rows = [_row(kind, layers) for kind, layers in kinds.items()]
    return [title, "", header, rule, *rows, rule, _row("total", counted.layers)]


def _row(kind: str, layers: Sequence[LayerCount]) -> str:
    forward = sum(layer.forward for layer in layers)
    backward = sum(layer.backward for layer in layers)
    total = forward + backward
    return f"{kind:<12}{len(layers):>7}{forward:>20,}{backward:>20,}{total:>20,}{total / 1e9:>14.6f}"


if __name__ == "__main__":
    main()
