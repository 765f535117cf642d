"""A client's certificates, and why a scheduler cannot be reached.

Dask itself only says that time is up, so the reason is found out by knocking at the scheduler's port. Files are named,
never what is in them.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

from distributed.comm.addressing import get_address_host_port
from distributed.security import Security

PATIENCE = 3.0  # seconds for each step of an explanation
OPTIONS = "--tls-ca-file, --tls-cert and --tls-key, or 'distributed.comm.tls' of Dask's configuration"
NO_SCHEDULER = "what listens there is no Dask scheduler, or one that is too busy to answer"
CERTIFICATE_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED


def credentials(ca_file: str | None, cert: str | None, key: str | None) -> Security:
    """Dask's own record of a client's files; what is not given is taken from Dask's configuration."""
    given = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key}
    return Security(**{name: path for name, path in given.items() if path is not None})


def require_credentials(address: str, security: Security) -> None:
    """Refuse, before anything is sent, credentials that cannot serve an address, or whose files are unusable."""
    client = security.get_tls_config_for_role("client")
    encrypted = address.startswith("tls://")
    if not encrypted and security.require_encryption:
        raise ValueError(
            f"{address!r} is not encrypted, but encryption is asked for: give the address as tls://..., or leave "
            "the certificates out"
        )
    if encrypted and not (client["ca_file"] and client["cert"]):
        raise ValueError(f"{address!r} needs the certificates of its cluster: give {OPTIONS}")
    if encrypted:
        for what in ("ca_file", "cert", "key"):
            if _is_path(client[what]):
                _require_file(what, client[what])
        _context(security)


def _require_file(what: str, path: str) -> None:
    if not Path(path).is_file():
        raise ValueError(f"the {what.replace('_', ' ')} {path!r} of the TLS credentials is not there")
    if "ENCRYPTED" in Path(path).read_text(errors="replace"):
        raise ValueError(
            f"{path!r} is locked with a passphrase, for which Dask cannot ask: write an unlocked copy that only you "
            "can read ('umask 077; openssl pkey -in LOCKED -out UNLOCKED') and give that"
        )


def _context(security: Security) -> Any:
    try:
        return security.get_connection_args("client")["ssl_context"]
    except (ssl.SSLError, OSError) as error:
        client = security.get_tls_config_for_role("client")
        files = [path for path in (client["ca_file"], client["cert"], client["key"]) if _is_path(path)]
        what = getattr(error, "reason", None) or error.strerror
        raise ValueError(f"the TLS credentials {', '.join(files)} cannot be used: {what}") from None


def _is_path(text: str | None) -> bool:
    return text is not None and "\n" not in text  # Dask takes PEM text as well


def reason(address: str, security: Security) -> str:
    """What keeps a client from the scheduler at an address, and what to do."""
    try:
        host, port = get_address_host_port(address, strict=True)
        with socket.create_connection((host, port), PATIENCE) as connection:
            connection.settimeout(PATIENCE)
            if address.startswith("tls://"):
                return _refused_by(connection, security, address)
            if _speaks_tls(connection):
                return f"it asks for TLS: give its address as tls://{host}:{port}, and {OPTIONS}"
    except TimeoutError:
        return "nothing answers there: the host or the port is wrong, or a firewall is between"
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        return (
            f"{what}. Start one with 'dask scheduler' and give the address it prints, or run on this machine"
        )
    return NO_SCHEDULER


def _refused_by(connection: socket.socket, security: Security, address: str) -> str:
    client = security.get_tls_config_for_role("client")
    authority = client["ca_file"] if _is_path(client["ca_file"]) else "that was given"
    own = client["cert"] if _is_path(client["cert"]) else "that was given"
    try:
        with _context(security).wrap_socket(connection) as encrypted:
            encrypted.recv(1)  # since TLS 1.3 a server judges a client's certificate after the handshake
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == CERTIFICATE_EXPIRED:
            return f"the scheduler's certificate, or the authority {authority} that signed it, has expired: renew it"
        return (
            f"the scheduler's certificate was not signed by the authority {authority} ({error.verify_message}): give "
            "the CA file that the scheduler and the workers were started with"
        )
    except ssl.SSLError as error:
        return _alert(error.reason or "", own, authority, address)
    except ConnectionError:
        return f"it closed the connection: it does not accept the certificate {own}, or does not speak TLS"
    return NO_SCHEDULER


def _alert(alert: str, own: str, authority: str, address: str) -> str:
    if "EXPIRED" in alert:
        return f"the scheduler says that your certificate {own} has expired: renew it"
    if "UNKNOWN_CA" in alert or "BAD_CERTIFICATE" in alert:
        return (
            f"the scheduler does not know the authority that signed your certificate {own}: have it signed by the one "
            "of the cluster"
        )
    if alert in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"):
        return f"it does not speak TLS: give its address as {address.replace('tls://', 'tcp://')}"
    return f"TLS failed: {alert}"


def _speaks_tls(connection: socket.socket) -> bool:
    """Whether a server answers a TLS greeting; nothing is sent to it and nothing of it is believed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except (ssl.SSLError, OSError) as error:
        return "ALERT" in (getattr(error, "reason", None) or "")
    return True
