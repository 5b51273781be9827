"""Certificates for one test run, made by openssl, which comes with every Java package of Debian and Ubuntu."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY_PASSWORD = "key words of the key"


@dataclass(frozen=True)
class Certificates:
    """PEM files. The broker's is for the name localhost alone; the client's key is encrypted with KEY_PASSWORD."""

    authority: Path
    stranger: Path
    broker: Path
    client: Path
    client_key: Path


def make_certificates(folder: Path) -> Certificates:
    """An authority, a broker and a client that it vouches for, and another authority that nobody knows."""
    authority, stranger = (_authority(folder, name) for name in ("authority", "stranger"))
    broker = _signed(folder, "broker", authority, "subjectAltName=DNS:localhost")
    client = _signed(folder, "client", authority, "extendedKeyUsage=clientAuth")
    keystore = folder / "broker-keystore.pem"
    keystore.write_text(_key(broker).read_text() + broker.read_text())
    client_key = folder / "client-encrypted.key"
    _openssl("pkcs8", "-topk8", "-in", _key(client), "-out", client_key, "-passout", f"pass:{KEY_PASSWORD}")
    return Certificates(authority, stranger, keystore, client, client_key)


def _authority(folder: Path, name: str) -> Path:
    made = folder / f"{name}.pem"
    _openssl("req", "-x509", *_new_key(made), "-subj", f"/CN={name}", "-days", "2", "-out", made)
    return made


def _signed(folder: Path, name: str, authority: Path, extension: str) -> Path:
    made, request = folder / f"{name}.pem", folder / f"{name}.csr"
    _openssl("req", *_new_key(made), "-subj", f"/CN={name}", "-out", request)
    extensions = folder / f"{name}.ext"
    extensions.write_text(extension)
    by = ("-CA", authority, "-CAkey", _key(authority), "-set_serial", str(len(name)))
    _openssl("x509", "-req", "-in", request, *by, "-days", "2", "-extfile", extensions, "-out", made)
    return made


def _new_key(made: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", _key(made))


def _key(made: Path) -> Path:
    return made.with_suffix(".key")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL)
