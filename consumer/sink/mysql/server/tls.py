"""TLS to the server, by MySQL's own names for how much is asked of it (``ssl-mode``)."""

from __future__ import annotations

import ipaddress
import ssl
from functools import lru_cache
from typing import Any

from consumer.errors import BadConfig
from consumer.sink.mysql.settings import MySqlSettings, SslMode


def mode_of(settings: MySqlSettings) -> SslMode:
    """The URI's `ssl-mode`; without it a server on another host must prove its identity."""
    if settings.ssl_mode:
        return settings.ssl_mode
    near = not settings.ssl_ca and (settings.socket or _is_loopback(settings.host))
    return "PREFERRED" if near else "VERIFY_IDENTITY"


def tls_options(settings: MySqlSettings) -> dict[str, Any]:
    """Arguments for pymysql's connect. Raises BadConfig for unusable files."""
    match mode_of(settings):
        case "DISABLED":
            return {"ssl_disabled": True}
        case "PREFERRED" if not settings.ssl_cert:
            return {}
        case mode:
            return {"ssl": _context(mode, settings.ssl_ca, settings.ssl_cert, settings.ssl_key)}


@lru_cache(maxsize=8)
def _context(mode: SslMode, authority: str, certificate: str, key: str) -> ssl.SSLContext:
    """One for all connections of the process: reading the system's certificates takes 20 ms."""
    try:
        context = ssl.create_default_context(cafile=authority or None)
        context.check_hostname = mode == "VERIFY_IDENTITY"
        context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("VERIFY") else ssl.CERT_NONE
        # Certificates that servers make for themselves lack what newer Pythons ask for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except OSError as error:
        raise BadConfig(f"the downstream's ssl-ca, ssl-cert or ssl-key cannot be used: {error}") from error
    return context


def unproven(error: BaseException) -> bool:
    """Whether a connection failed because the server has no TLS, or does not prove its identity; not where it ended in
    the middle of the handshake, as that of a server that is killed does."""
    cause = getattr(error, "original_exception", error)
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return False
    return isinstance(cause, ssl.SSLError) or (len(error.args) > 1 and "SSL is required" in str(error.args[1]))


HINT = (
    "give the authority that signed the server's certificate (ssl-ca=/path/ca.pem in --downstream-uri), or ask for"
    " less: ssl-mode=VERIFY_CA, REQUIRED (encrypted, the server not checked), PREFERRED or DISABLED"
)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
