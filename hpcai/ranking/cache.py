"""Cache of verified results: which contents this program has found sound.

An entry is named by a digest of everything that a verification reads: the result's files, the program's source and the
packages of workloads. Altered files have another name, so no entry of theirs exists. An entry contains a keyed digest
of its name, whose key is a file that only this user can read: entries that are damaged, renamed, or from elsewhere do
not count. Only sound results are entered; all else is verified again.
"""

import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

KEY, KEY_BYTES = "key", 32
OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Cache:
    """A folder of entries, and the secret key of its user."""

    folder: Path
    key: bytes

    def knows(self, name: str) -> bool:
        """Whether these contents were found sound."""
        try:
            return hmac.compare_digest((self.folder / name).read_bytes(), self._entry(name))
        except OSError:
            return False

    def enter(self, name: str) -> None:
        """Remember that these contents are sound; nothing is kept where the folder cannot be written."""
        with suppress(OSError):
            temporary = self.folder / f".{name}-{os.getpid()}"
            temporary.write_bytes(self._entry(name))
            temporary.replace(self.folder / name)

    def _entry(self, name: str) -> bytes:
        return hmac.new(self.key, name.encode(), sha256).hexdigest().encode()


def opened() -> Cache | None:
    """The cache of this user; None if there is no folder that only this user can write."""
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = root / "hpcai" / "ranking"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Cache(folder, _key(folder / KEY)) if _is_own(folder) and os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError, ValueError):  # RuntimeError: the user has no home folder
        return None


def _is_own(path: Path) -> bool:
    facts = path.stat()
    return facts.st_uid == os.getuid() and not facts.st_mode & OTHERS


def _key(path: Path) -> bytes:
    """The key in its file, made at the first time; ValueError if others could have written it."""
    with suppress(FileExistsError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "wb") as writer:
            writer.write(secrets.token_bytes(KEY_BYTES))
    key = path.read_bytes()
    if len(key) != KEY_BYTES or not _is_own(path):
        raise ValueError("the key of the cache is damaged or not this user's")
    return key
