"""Sites over mutual TLS: each side accepts one certificate, which it was given beforehand.

There is no authority: a party makes a key and a certificate that it signs itself (`make_identity`),
and gives the certificate to the others. A site serves messages of one coordinator; a coordinator
sends messages to sites that it has certificates of. Nothing is sent twice: a message that may have
arrived counts.
"""

from __future__ import annotations

import http.client
import os
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from discreet.log import note
from discreet.sites.federation import Federation
from discreet.sites.masks import Identity
from discreet.sites.site import Site
from discreet.sites.sockets import LARGEST_MESSAGE, WAIT
from discreet.sites.terms import SiteError
from discreet.validate import integer

REACH = 30.0
"""Seconds to wait for a connection: a machine that is gone should end a fit soon."""

YEARS = 5
"""How long a certificate is valid."""


def make_identity(name: str, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a private key, readable by its owner alone, and a certificate; return their paths.

    The certificate, NAME.crt, is for the other parties; NAME.key stays where it is.
    """
    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    paths = (Path(folder) / f"{name}.key", Path(folder) / f"{name}.crt")
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} exists; a key is not replaced. Choose another folder.")
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor = os.open(paths[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(private)
    paths[1].write_bytes(certificate.public_bytes(Encoding.PEM))
    return paths


@dataclass(frozen=True)
class Certificate:
    """The certificate of a party: its name and its public key."""

    path: Path
    name: str
    public: bytes
    der: bytes

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate that `make_identity` wrote."""
        found = x509.load_pem_x509_certificate(Path(path).read_bytes())
        key = found.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError(f"{path} has no Ed25519 key; make it with: discreet site key NAME")
        name = str(found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        return cls(Path(path), name, key.public_bytes_raw(), found.public_bytes(Encoding.DER))


def read_identity(path: str | os.PathLike[str]) -> Identity:
    """Read a private key that `make_identity` wrote."""
    key = load_pem_private_key(Path(path).read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} is no Ed25519 key; make it with: discreet site key NAME")
    return Identity(key)


def _context(
    side: int, own: Certificate, key: str | os.PathLike[str], peer: Certificate
) -> ssl.SSLContext:
    """Return a TLS context that shows one certificate and accepts one other."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is compared
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(own.path, key)
    context.load_verify_locations(peer.path)
    return context


class Server(ThreadingHTTPServer):
    """A site that listens for messages of one coordinator.

    Parameters
    ----------
    site : Site
        The site.
    address : (str, int)
        Host and port to listen at; port 0 takes a free one.
    own, key, coordinator
        Certificate and private key of the site, and the certificate of the coordinator.
    """

    daemon_threads = True

    def __init__(
        self,
        site: Site,
        address: tuple[str, int],
        *,
        own: Certificate,
        key: str | os.PathLike[str],
        coordinator: Certificate,
    ) -> None:
        super().__init__(address, _Handler)
        self.site = site
        self.coordinator = coordinator
        self.context = _context(ssl.PROTOCOL_TLS_SERVER, own, key, coordinator)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the thread of the connection, so that no stranger delays the others."""
        request.settimeout(WAIT)
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except OSError as error:  # also what ssl raises
            note("Site %s turned away a connection (%s).", self.site.name, type(error).__name__)
            return
        with secured:
            if secured.getpeercert(binary_form=True) == self.coordinator.der:
                _Handler(secured, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a connection that broke; its text is withheld."""
        note("Site %s lost a connection.", self.site.name)


class _Handler(BaseHTTPRequestHandler):
    """Messages as the bodies of POST requests, on one connection that stays open."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        """Answer a message."""
        size = int(self.headers.get("Content-Length", "-1"))
        if not 0 <= size <= LARGEST_MESSAGE:
            self.send_error(413)
            return
        reply = self.server.site.handle(self.rfile.read(size))
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write no log of requests: the site notes what it answers."""


@dataclass(eq=False)
class Remote:
    """A site at an address, over mutual TLS."""

    name: str
    address: tuple[str, int]
    certificate: Certificate
    context: ssl.SSLContext
    connection: http.client.HTTPSConnection | None = None

    def send(self, message: bytes) -> bytes:
        """Send a message, once, and return the reply."""
        try:
            if self.connection is None:
                self.connection = self._connected()
            self.connection.request("POST", "/", body=message)
            response = self.connection.getresponse()
            reply = response.read(LARGEST_MESSAGE)
        except (OSError, http.client.HTTPException) as error:
            self.connection = None
            raise SiteError(
                f"Site {self.name!r} at {self.address[0]}:{self.address[1]} gave no answer "
                f"({type(error).__name__}). What it charged stays spent."
            ) from None
        if response.status != 200:
            raise SiteError(f"Site {self.name!r} answered with status {response.status}.")
        return reply

    def _connected(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(*self.address, context=self.context, timeout=REACH)
        connection.connect()
        sock: Any = connection.sock
        if sock.getpeercert(binary_form=True) != self.certificate.der:
            raise ssl.SSLError("another certificate")
        sock.settimeout(WAIT)
        return connection


def read_federation(path: str | os.PathLike[str]) -> Federation:
    """Return the federation of a sites file.

    The file has ``key`` and ``certificate`` of the coordinator, ``trust``, ``colluding`` and, for
    each ``[[site]]``, its ``address`` (HOST:PORT) and ``certificate``. Paths are relative to it.
    """
    file = Path(path)
    content = tomllib.loads(file.read_text("utf-8"))
    known = {"key", "certificate", "trust", "colluding", "site"}
    _check_keys(file, content, known, needed=("key", "certificate", "site"))
    own = Certificate.read(file.parent / content["certificate"])
    channels = []
    for entry in content["site"]:
        _check_keys(file, entry, {"address", "certificate"}, needed=("address", "certificate"))
        certificate = Certificate.read(file.parent / entry["certificate"])
        key = file.parent / content["key"]
        context = _context(ssl.PROTOCOL_TLS_CLIENT, own, key, certificate)
        address = as_address(entry["address"])
        channels.append(Remote(certificate.name, address, certificate, context))
    settings = {name: content[name] for name in ("trust", "colluding") if name in content}
    return Federation(channels, **settings)


def _check_keys(
    file: Path, content: Mapping[str, Any], known: set[str], needed: tuple[str, ...]
) -> None:
    """Refuse a sites file with unknown entries, or without needed ones."""
    for name in content:
        if name not in known:
            raise ValueError(f"{file}: unknown entry {name!r}; known: {', '.join(sorted(known))}.")
    for name in needed:
        if name not in content:
            raise ValueError(f"{file}: the entry {name!r} is missing.")


def as_address(text: str) -> tuple[str, int]:
    """Return the host and port of HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"an address is HOST:PORT, such as 127.0.0.1:8441; got {text!r}.")
    return host, integer("port", int(port), least=0, most=65535)
