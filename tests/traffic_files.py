"""A file tree that counts bytes as /sys does, for tests of traffic counters."""

from pathlib import Path

DIRECTIONS = {"rx": "rcv", "tx": "xmit"}


class Interfaces:
    """Interfaces and ports of a node below `root`; all counters begin at 0."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "class/net").mkdir(parents=True)

    def add(self, name: str, device: bool = True, kind: int = 1, below: str = "") -> None:
        """An interface; `below`: the one that it lies on."""
        folder = self.root / "class/net" / name
        (folder / "statistics").mkdir(parents=True)
        (folder / "type").write_text(f"{kind}\n")
        if device:
            (folder / "device").mkdir()
        if below:
            (folder / f"lower_{below}").symlink_to(self.root / "class/net" / below)
        self.set(name, 0, 0)

    def set(self, name: str, received: int, sent: int) -> None:
        """Bytes of an interface since boot."""
        for direction, count in (("rx", received), ("tx", sent)):
            self.counter(name, direction).write_text(f"{count}\n")

    def counter(self, name: str, direction: str) -> Path:
        """The file of a counter; direction: rx or tx."""
        return self.root / "class/net" / name / f"statistics/{direction}_bytes"

    def set_port(self, name: str, received: int, sent: int) -> None:
        """Words of 4 bytes of an InfiniBand port since boot."""
        folder = self.root / "class/infiniband" / name / "ports/1/counters"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "port_rcv_data").write_text(f"{received}\n")
        (folder / "port_xmit_data").write_text(f"{sent}\n")
