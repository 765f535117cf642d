"""Encrypted schedulers: who has the certificates gets in; who has not is refused within seconds, with Dask's reason."""

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

# Dask lets go of a socket late when what answers is no scheduler: whichever test is next when it is collected
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
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(result.folder / "ours.ca"))
    theirs.cert_pem.write_to_path(str(result.folder / "theirs.ca"))
    (result.folder / "text.ca").write_text("no certificate")
    result.issue(ours, "good")
    result.issue(ours, "expired", **LONG_AGO)
    result.issue(theirs, "foreign")
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


def refusal(kind: type[Exception], address: str, security: Security | None = None) -> str:
    with pytest.raises(kind) as error, connect(address, security):
        pass
    assert "PRIVATE KEY" not in str(error.value)
    return str(error.value)


def test_certificates_open_the_door(encrypted: str, files: Files) -> None:
    with connect(encrypted, files.security()) as result:
        assert result == f"{encrypted}: 0 workers, 0 threads"


def test_certificates_of_the_configuration(encrypted: str, files: Files) -> None:
    ca_file, cert, key = files.paths()
    tls = {"ca-file": ca_file, "client.cert": cert, "client.key": key}
    configuration = {f"distributed.comm.tls.{name}": path for name, path in tls.items()}
    with dask.config.set(configuration), connect(encrypted) as result:
        assert result.startswith(encrypted)


def test_an_expired_certificate_of_ones_own(encrypted: str, files: Files) -> None:
    text = refusal(ConnectionError, encrypted, files.security("expired"))
    assert "certificates of the cluster's authority that have not expired" in text


@pytest.mark.network
def test_an_expired_certificate_of_the_scheduler(files: Files, tmp_path: Path) -> None:
    ca_file, cert, key = files.paths("expired")
    where = ["--host", "tls://127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    tls = ["--tls-ca-file", ca_file, "--tls-cert", cert, "--tls-key", key]
    with Programs(tmp_path) as run:
        log = run.start(["dask", "scheduler", *where, *tls], says="Scheduler at")
        address = re.findall("Scheduler at: +(.*)", log.read_text())[0]
        text = refusal(ConnectionError, address, files.security())
    assert "certificate has expired" in text


def test_a_scheduler_of_another_authority(encrypted: str, files: Files) -> None:
    text = refusal(ConnectionError, encrypted, files.security(authority="theirs"))
    assert "certificate verify failed" in text


def test_a_certificate_of_another_authority(encrypted: str, files: Files) -> None:
    text = refusal(ConnectionError, encrypted, files.security("foreign"))
    assert "certificates of the cluster's authority" in text


def test_tcp_for_tls(encrypted: str) -> None:
    text = refusal(ConnectionError, encrypted.replace("tls://", "tcp://"))
    assert "(tcp:// or tls://); tls:// needs certificates" in text


def test_tls_for_tcp(plain: str, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTION_TIMEOUT_SECONDS", 1.0)
    text = refusal(ConnectionError, plain.replace("tcp://", "tls://"), files.security())
    assert "Check the address that 'dask scheduler' printed (tcp:// or tls://)" in text


def test_certificates_for_an_address_without_encryption(plain: str, files: Files) -> None:
    assert "encryption required by Dask configuration" in refusal(ConnectionError, plain, files.security())


def test_an_encrypted_address_without_certificates(encrypted: str) -> None:
    text = refusal(ConnectionError, encrypted)
    assert "perhaps check your TLS configuration" in text
    assert "--tls-ca-file" in text


def test_files_that_cannot_be_used(files: Files) -> None:
    address = "tls://127.0.0.1:9"
    text = refusal(ValueError, address, files.security("absent"))
    assert f"No such file or directory: {files.paths('absent')[1]!r}" in text
    assert "KEY_VALUES_MISMATCH" in refusal(ValueError, address, files.security(key="foreign"))
    assert "text.ca" in refusal(ValueError, address, files.security(authority="text"))


def test_a_key_that_is_locked(files: Files) -> None:
    """OpenSSL would ask for the passphrase on the terminal, and wait there."""
    key = serialization.load_pem_private_key((files.folder / "good.key").read_bytes(), None)
    lock = serialization.BestAvailableEncryption(b"hush")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (files.folder / "locked.key").write_bytes(key.private_bytes(*form, lock))
    text = refusal(ValueError, "tls://127.0.0.1:9", files.security(key="locked"))
    assert "locked.key' has a passphrase" in text


def test_text_instead_of_files_stays_out_of_messages(encrypted: str, files: Files) -> None:
    """Dask takes certificates and keys as text too."""
    ca_file, cert, key = (Path(path).read_text() for path in files.paths())
    security = Security(tls_ca_file=ca_file, tls_client_cert=cert, tls_client_key=key)
    with connect(encrypted, security):
        pass
    _, foreign, foreign_key = (Path(path).read_text() for path in files.paths("foreign"))
    security = Security(tls_ca_file=ca_file, tls_client_cert=foreign, tls_client_key=foreign_key)
    text = refusal(ConnectionError, encrypted, security)
    assert "certificates of the cluster's authority" in text
    assert "BEGIN" not in text


def test_a_worker_is_no_scheduler(plain: str) -> None:
    with connect(plain):
        (worker,) = get_client().nthreads()
    assert "the server is a Worker" in refusal(ConnectionError, worker)


# Dask leaves a socket to the garbage collector when an answer takes too long
def test_what_is_no_scheduler(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTION_TIMEOUT_SECONDS", 1.0)
    assert re.search(
        "refused|Timeout", refusal(ConnectionError, "tcp://127.0.0.1:9")
    )  # Dask tries again until then
    assert "unknown address scheme" in refusal(ConnectionError, "bag://127.0.0.1:8786")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        begun = time.monotonic()
        for scheme, security in (("tcp", None), ("tls", files.security())):
            assert "Timeout" in refusal(ConnectionError, f"{scheme}://127.0.0.1:{port}", security)
        assert time.monotonic() - begun < 30
    gc.collect()


def test_the_command_line_takes_files_as_dask_does(
    encrypted: str, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the scheduler and TLS files: the connection stands, and so the next thing is looked at."""
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


def test_a_scheduler_file_that_is_missing_or_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTION_TIMEOUT_SECONDS", 0.2)
    for text in (None, "", "{}", "[]"):
        if text is not None:
            (tmp_path / "scheduler.json").write_text(text)
        with pytest.raises(
            ConnectionError, match=r"scheduler\.json' contains no address\. Start a scheduler with"
        ):
            cluster_module.read_scheduler_file(tmp_path / "scheduler.json")
