"""Certificates of a small authority, for tests of TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """`file` is its certificate, as PEM."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.file = folder, folder / f"{name}.pem"
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        base = self._begun(self._name, self._key, 1)
        authority = base.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file.write_bytes(_pem(authority.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, host: str, days: int = 1) -> tuple[Path, Path]:
        """A certificate for a host name or address, and its key; with negative `days` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        common = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        is_name = any(char.isalpha() for char in host)
        general = x509.DNSName(host) if is_name else x509.IPAddress(ip_address(host))
        made = self._begun(common, key, days).add_extension(x509.SubjectAlternativeName([general]), critical=False)
        certificate, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, none))
        return certificate, secret

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        end = datetime.now(UTC) + timedelta(days=days)
        begun = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        begun = begun.serial_number(x509.random_serial_number())
        return begun.not_valid_before(end - timedelta(days=30)).not_valid_after(end)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
