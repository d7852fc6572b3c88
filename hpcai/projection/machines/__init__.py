"""Machine files that are shipped: links, ranks and, where published, rates and efficiencies, each with its source."""

from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Names of the shipped machines, as --machine takes them."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))
