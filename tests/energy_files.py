"""Files that count energy as /sys does: RAPL's domains in class/powercap, Cray's pm_counters."""

from pathlib import Path

RANGE = 262_143_328_850  # microjoules, of many processors
NEAR_END = RANGE - 1_000_000


class Tree:
    """A folder in place of /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._counts: dict[str, int] = {}

    def domain(self, name: str, kind: str, count: int = 5_000_000, most: int = RANGE) -> "Tree":
        """A RAPL domain such as intel-rapl:0, of a kind such as package-0."""
        folder = self.root / "class/powercap" / name
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{kind}\n")
        (folder / "max_energy_range_uj").write_text(f"{most}\n")
        self._counts[name] = count
        return self.count(name, 0)

    def count(self, name: str, microjoules: int) -> "Tree":
        """Let the domain count more; after its range it starts again from 0."""
        folder = self.root / "class/powercap" / name
        most = int((folder / "max_energy_range_uj").read_text())
        self._counts[name] = (self._counts[name] + microjoules) % most
        (folder / "energy_uj").write_text(f"{self._counts[name]}\n")
        return self

    def cray(self, joules: int) -> "Tree":
        """Joules of the node so far, by pm_counters."""
        folder = self.root / "cray/pm_counters"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "energy").write_text(f"{joules} J 1700000000000000 us\n")
        return self


def two_packages(root: Path) -> Tree:
    """A node as powercap shows it: two packages, of which the first is near its end, cores, DRAM, and psys."""
    tree = Tree(root).domain("intel-rapl", "a control type without a counter")
    tree.domain("intel-rapl:0", "package-0", NEAR_END).domain("intel-rapl:1", "package-1")
    tree.domain("intel-rapl:0:0", "core").domain("intel-rapl:0:1", "dram").domain("intel-rapl:2", "psys")
    return tree.domain("intel-rapl-mmio:0", "package-0")


def used(tree: Tree, joules: int) -> None:
    """Let both packages and the DRAM count so many joules together, and psys and cores others."""
    micro = joules * 10**6
    tree.count("intel-rapl:0", micro // 2).count("intel-rapl:1", micro // 4).count("intel-rapl:0:1", micro // 4)
    tree.count("intel-rapl:2", 3 * micro).count("intel-rapl:0:0", micro // 8)
