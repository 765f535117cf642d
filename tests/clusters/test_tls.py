"""Encrypted schedulers: valid certificates connect; other connections fail within seconds with Dask's reason."""

from __future__ import annotations

import datetime
import gc
import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dask
import numpy as np
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from distributed import LocalCluster, get_client
from distributed.security import Security

import dkdist as dk
from dkdist._runtime import cluster as cluster_module
from dkdist._runtime.cluster import connect
from dkdist.cli import main

from .programs import Programs

# Dask closes sockets to other servers late, so the warning may appear in any later test
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LONG_AGO = {"not_before": datetime.datetime(2020, 1, 1), "not_after": datetime.datetime(2021, 1, 1)}


@dataclass(frozen=True)
class Files:
    """Certificates and keys by name, in a folder."""

    folder: Path

    def issue(self, authority: trustme.CA, name: str, **dates: datetime.datetime) -> None:
        issued = authority.issue_cert("127.0.0.1", **dates)
        issued.private_key_pem.write_to_path(str(self.folder / f"{name}.key"))
        (self.folder / f"{name}.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    def paths(self, name: str = "good", authority: str = "ours", key: str | None = None) -> list[str]:
        return [str(self.folder / file) for file in (f"{authority}.ca", f"{name}.pem", f"{key or name}.key")]

    def security(self, *names: str, **more: str) -> Security:
        ca_file, cert, key = self.paths(*names, **more)
        return Security(
            tls_ca_file=ca_file, tls_client_cert=cert, tls_client_key=key, tls_scheduler_cert=cert,
            tls_scheduler_key=key, require_encryption=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    result = Files(tmp_path_factory.mktemp("tls"))
    own_ca, other_ca = trustme.CA(), trustme.CA()
    own_ca.cert_pem.write_to_path(str(result.folder / "ours.ca"))
    other_ca.cert_pem.write_to_path(str(result.folder / "theirs.ca"))
    (result.folder / "text.ca").write_text("no certificate")
    result.issue(own_ca, "good")
    result.issue(own_ca, "expired", **LONG_AGO)
    result.issue(other_ca, "foreign")
    return result


def scheduler(**options: object) -> LocalCluster:
    return LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0", **options)


@pytest.fixture(scope="module")
def encrypted(files: Files) -> Iterator[str]:
    with scheduler(protocol="tls://", security=files.security()) as result:
        yield result.scheduler_address


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"
    ) as result:
        yield result.scheduler_address


def connection_error(kind: type[Exception], address: str, security: Security | None = None) -> str:
    with pytest.raises(kind) as error, connect(address, security):
        pass
    assert "PRIVATE KEY" not in str(error.value)
    return str(error.value)


def test_valid_certificates_connect(encrypted: str, files: Files) -> None:
    with connect(encrypted, files.security()) as result:
        assert result == f"{encrypted}: 0 workers, 0 threads"


def test_certificates_of_the_configuration(encrypted: str, files: Files) -> None:
    ca_file, cert, key = files.paths()
    tls = {"ca-file": ca_file, "client.cert": cert, "client.key": key}
    configuration = {f"distributed.comm.tls.{name}": path for name, path in tls.items()}
    with dask.config.set(configuration), connect(encrypted) as result:
        assert result.startswith(encrypted)


def test_expired_client_certificate_raises(encrypted: str, files: Files) -> None:
    text = connection_error(ConnectionError, encrypted, files.security("expired"))
    assert "certificates of the cluster's authority that have not expired" in text


@pytest.mark.network
def test_expired_scheduler_certificate_raises(files: Files, tmp_path: Path) -> None:
    ca_file, cert, key = files.paths("expired")
    scheduler_options = ["--host", "tls://127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    tls = ["--tls-ca-file", ca_file, "--tls-cert", cert, "--tls-key", key]
    with Programs(tmp_path) as run:
        log = run.start(["dask", "scheduler", *scheduler_options, *tls], expected_output="Scheduler at")
        address = re.findall("Scheduler at: +(.*)", log.read_text())[0]
        text = connection_error(ConnectionError, address, files.security())
    assert "certificate has expired" in text


def test_scheduler_of_another_authority_raises(encrypted: str, files: Files) -> None:
    text = connection_error(ConnectionError, encrypted, files.security(authority="theirs"))
    assert "certificate verify failed" in text


def test_certificate_of_another_authority_raises(encrypted: str, files: Files) -> None:
    text = connection_error(ConnectionError, encrypted, files.security("foreign"))
    assert "certificates of the cluster's authority" in text


def test_tcp_address_of_tls_scheduler_raises(encrypted: str) -> None:
    text = connection_error(ConnectionError, encrypted.replace("tls://", "tcp://"))
    assert "(tcp:// or tls://); tls:// needs certificates" in text


def test_tls_address_of_tcp_scheduler_raises(
    plain: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTION_TIMEOUT_SECONDS", 1.0)
    text = connection_error(ConnectionError, plain.replace("tcp://", "tls://"), files.security())
    assert "Check the address that 'dask scheduler' printed (tcp:// or tls://)" in text


def test_certificates_for_tcp_address_raise(plain: str, files: Files) -> None:
    assert "encryption required by Dask configuration" in connection_error(
        ConnectionError, plain, files.security()
    )


def test_tls_address_without_certificates_raises(encrypted: str) -> None:
    text = connection_error(ConnectionError, encrypted)
    assert "perhaps check your TLS configuration" in text
    assert "--tls-ca-file" in text


def test_invalid_certificate_files_raise(files: Files) -> None:
    address = "tls://127.0.0.1:9"
    text = connection_error(ValueError, address, files.security("absent"))
    assert f"No such file or directory: {files.paths('absent')[1]!r}" in text
    assert "KEY_VALUES_MISMATCH" in connection_error(ValueError, address, files.security(key="foreign"))
    assert "text.ca" in connection_error(ValueError, address, files.security(authority="text"))


def test_encrypted_key_raises(files: Files) -> None:
    """OpenSSL would wait for the passphrase on the terminal."""
    key = serialization.load_pem_private_key((files.folder / "good.key").read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"hush")
    key_format = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (files.folder / "locked.key").write_bytes(key.private_bytes(*key_format, encryption))
    text = connection_error(ValueError, "tls://127.0.0.1:9", files.security(key="locked"))
    assert "locked.key' has a passphrase" in text


def test_certificate_text_is_not_in_messages(encrypted: str, files: Files) -> None:
    """Dask also accepts certificates and keys as text."""
    ca_file, cert, key = (Path(path).read_text() for path in files.paths())
    security = Security(tls_ca_file=ca_file, tls_client_cert=cert, tls_client_key=key)
    with connect(encrypted, security):
        pass
    _, foreign, foreign_key = (Path(path).read_text() for path in files.paths("foreign"))
    security = Security(tls_ca_file=ca_file, tls_client_cert=foreign, tls_client_key=foreign_key)
    text = connection_error(ConnectionError, encrypted, security)
    assert "certificates of the cluster's authority" in text
    assert "BEGIN" not in text


def test_worker_address_raises(plain: str) -> None:
    with connect(plain):
        (worker,) = get_client().nthreads()
    assert "the server is a Worker" in connection_error(ConnectionError, worker)


# after a timeout, Dask leaves a socket to the garbage collector
def test_other_servers_raise(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTION_TIMEOUT_SECONDS", 1.0)
    # Dask retries until the timeout
    assert re.search("refused|Timeout", connection_error(ConnectionError, "tcp://127.0.0.1:9"))
    assert "unknown address scheme" in connection_error(ConnectionError, "bag://127.0.0.1:8786")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        for scheme, security in (("tcp", None), ("tls", files.security())):
            assert "Timeout" in connection_error(ConnectionError, f"{scheme}://127.0.0.1:{port}", security)
        assert time.monotonic() - start < 30
    gc.collect()


def test_command_line_accepts_tls_files(
    encrypted: str, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a scheduler file and TLS files, the connection succeeds and the next check fails."""
    (tmp_path / "scheduler.json").write_text(json.dumps({"type": "Scheduler", "address": encrypted}))
    ca_file, cert, key = files.paths()
    tls = ["--tls-ca-file", ca_file, "--tls-cert", cert, "--tls-key", key]
    store = str(tmp_path / "bags.zarr")
    dk.write_sets(store, np.random.default_rng(0).random((4, 5, 2)), targets={"y": np.arange(4.0)})
    fit = ["fit", store, "--target", "y", "--model", str(tmp_path / "model.npz")]
    with dask.config.set({"dkdist.wait-for-workers": "10ms"}):
        assert main([*fit, "--scheduler-file", str(tmp_path / "scheduler.json"), *tls]) == 2
    text = capsys.readouterr().err
    assert f"running on {encrypted}: 0 workers" in text
    assert "has had no worker for 0.01 s" in text
    assert main([*fit, *tls]) == 2
    assert "require a cluster. Pass --scheduler or --scheduler-file as well" in capsys.readouterr().err


def test_missing_or_empty_scheduler_file_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTION_TIMEOUT_SECONDS", 0.2)
    for text in (None, "", "{}", "[]"):
        if text is not None:
            (tmp_path / "scheduler.json").write_text(text)
        with pytest.raises(
            ConnectionError, match=r"scheduler\.json' contains no address\. Start a scheduler with"
        ):
            cluster_module.read_scheduler_file(tmp_path / "scheduler.json")
