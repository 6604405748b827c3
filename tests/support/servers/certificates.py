"""Certificates of servers on this machine."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificate(folder: Path, valid_from: datetime | None = None, host: str = "127.0.0.1") -> ssl.SSLContext:
    """A server's side of TLS, with a certificate for `host`, an IP address or a name, that nobody signed but itself, in
    `folder`/cert.pem. It is valid for a day.
    """
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now, subject = valid_from or datetime.now(UTC), x509.SubjectAlternativeName([_named(host)])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
    signed = made.add_extension(subject, critical=True).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def _named(host: str) -> x509.GeneralName:
    """An IP address as such, anything else as a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
