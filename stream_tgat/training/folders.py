"""Where releases lie: a folder of this machine, or a URL of any file system that fsspec knows.

Either holds entries, each a name with a few files, written once; an entry is there completely or not at all. What is
written here knows nothing of releases.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from stream_tgat.disk import told_if_full
from stream_tgat.errors import UnreachableStoreError

# Some keys have slashes in them, which a URL does not allow and people write all the same.
_USER = re.compile(r"(?<=://)(?:[^/@\s]*|[^@\s]*:[^@\s]*)@")
_LOCAL = re.compile(r"(?:file|local)://")


class Folder(Protocol):
    """Entries in one place."""

    @property
    def address(self) -> str:
        """A path, or a URL without user and password."""
        ...

    def names(self) -> list[str]:
        """Names of all complete entries, sorted."""
        ...

    def read(self, name: str, file: str) -> bytes:
        """A file of an entry; OSError where there is none."""
        ...

    def write(self, name: str, files: Mapping[str, bytes]) -> None:
        """Write an entry, unless it is there."""
        ...


def open_folder(address: str | Path, last: str) -> Folder:
    """The folder at a path or URL. last: the file that each entry has and that is written last"""
    text = str(address)
    if _LOCAL.match(text):
        return LocalFolder(Path(_LOCAL.sub("", text)), last)
    return RemoteFolder(text, last) if "://" in text or "::" in text else LocalFolder(Path(text), last)


def without_user(text: str) -> str:
    """A text with user and password taken out of its URLs.

    >>> without_user("sftp://ann:secret@host/releases")
    'sftp://host/releases'
    """
    return _USER.sub("", text)


def announced(address: str | Path) -> str:
    """The address as other machines are told it: an absolute path, or a URL without user and password."""
    text = _LOCAL.sub("", str(address))
    return without_user(text) if "://" in text or "::" in text else str(Path(text).resolve())


class LocalFolder:
    """A folder of this machine. An entry is written beside and then renamed, which is one step."""

    def __init__(self, path: Path, last: str) -> None:
        self._path, self._last = path, last

    @property
    def address(self) -> str:
        """The path."""
        return str(self._path)

    def names(self) -> list[str]:
        """As in `Folder`."""
        if not self._path.is_dir():
            return []
        return sorted(entry.parent.name for entry in self._path.glob(f"[!.]*/{self._last}"))

    def read(self, name: str, file: str) -> bytes:
        """As in `Folder`."""
        return (self._path / name / file).read_bytes()

    def write(self, name: str, files: Mapping[str, bytes]) -> None:
        """As in `Folder`."""
        with told_if_full(self._path):
            self._write(name, files)

    def _write(self, name: str, files: Mapping[str, bytes]) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        partial = self._path / f".{name}.{secrets.token_hex(4)}"
        partial.mkdir()
        try:
            for file, content in files.items():
                with (partial / file).open("wb") as target:
                    target.write(content)
                    target.flush()
                    os.fsync(target.fileno())
            if not (self._path / name).exists():
                partial.rename(self._path / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


class RemoteFolder:
    """A URL of fsspec. Object stores cannot rename a folder, so an entry counts as there once it has its last file.

    That file is written under another name and then moved, as on some file systems a file under way can be seen.
    """

    def __init__(self, url: str, last: str) -> None:
        self._url, self._last = url, last

    @property
    def address(self) -> str:
        """The URL, without user and password."""
        return without_user(self._url)

    def names(self) -> list[str]:
        """As in `Folder`."""
        try:
            with self._reached(FileNotFoundError) as (system, root):
                system.invalidate_cache()
                found = system.glob(f"{root}/*/{self._last}")
        except FileNotFoundError:
            return []
        return sorted(name for name in (path.rstrip("/").split("/")[-2] for path in found) if not name.startswith("."))

    def read(self, name: str, file: str) -> bytes:
        """As in `Folder`."""
        with self._reached(FileNotFoundError) as (system, root):
            return bytes(system.cat_file(f"{root}/{name}/{file}"))

    def write(self, name: str, files: Mapping[str, bytes]) -> None:
        """As in `Folder`."""
        with self._reached() as (system, root):
            entry = f"{root}/{name}"
            if system.exists(f"{entry}/{self._last}"):
                return
            system.makedirs(entry, exist_ok=True)
            try:
                for file, content in files.items():
                    if file != self._last:
                        system.pipe_file(f"{entry}/{file}", content)
                partial = f"{entry}/.{self._last}.{secrets.token_hex(4)}"
                system.pipe_file(partial, files[self._last])
                system.mv(partial, f"{entry}/{self._last}")
            except BaseException:
                with suppress(Exception):  # what stays has no last file and so does not count
                    system.rm(entry, recursive=True)
                raise

    @contextmanager
    def _reached(self, *passed: type[Exception]) -> Iterator[tuple[Any, str]]:
        """The file system and the path in it; what goes wrong there is an UnreachableStoreError that says where.

        passed: what is handed on as it is
        """
        try:
            from fsspec.core import url_to_fs

            system, path = url_to_fs(self._url)
            yield system, path.rstrip("/")
        except passed:
            raise
        except Exception as problem:  # noqa: BLE001 every file system has errors of its own
            said = without_user(f"{type(problem).__name__}: {problem}")
            raise UnreachableStoreError(
                f"The release store {self.address} cannot be used: {said}. Look at releases.store in the topology, and "
                "at the keys in the environment; some file systems need a package of their own, such as s3fs or gcsfs"
            ) from None
