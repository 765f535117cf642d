"""Static checks of deploy/ and docs/clusters.md: valid manifests, and no open ports."""

from __future__ import annotations

import re
import socket
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from distributed.cli import dask_scheduler, dask_worker

import dkdist as dk
from dkdist.cli import main

from .recipes import ROOT, TEXT, blocks

MANIFEST = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
CERTIFICATES = {"--tls-ca-file", "--tls-cert", "--tls-key"}


def containers() -> dict[str, dict]:
    pods = [item["spec"]["template"]["spec"] for item in MANIFEST if item["kind"] == "Deployment"]
    return {pod["containers"][0]["name"]: {**pod["containers"][0], "pod": pod} for pod in pods}


def test_kinds_of_the_kubernetes_manifest() -> None:
    kinds = Counter(item["kind"] for item in MANIFEST)
    assert kinds == {"Service": 1, "Deployment": 2, "NetworkPolicy": 1}
    service, scheduler, worker, _ = MANIFEST
    for deployment in (scheduler, worker):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == scheduler["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("name", ["scheduler", "worker"])
def test_containers_of_the_kubernetes_manifest(name: str) -> None:
    container = containers()[name]
    arguments = [*container["command"], *container["args"]]
    assert {word.split("=")[0] for word in arguments} >= CERTIFICATES
    assert container["resources"]["limits"]["memory"]
    assert container["pod"]["volumes"][0]["secret"]["secretName"] == "dask-tls"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["tls"] == "/tls"
    assert {"name": "NUMBA_CACHE_DIR", "value": "/scratch/numba"} in container["env"]


@pytest.mark.parametrize("name", ["scheduler", "worker"])
def test_containers_of_the_kubernetes_manifest_are_restricted(name: str) -> None:
    container = containers()[name]
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert container["pod"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    values = {item["name"]: item["value"] for item in container["env"]}
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    for variable in ("HOME", "TMPDIR", "NUMBA_CACHE_DIR"):  # Python, Dask and Numba write to these
        assert any(Path(values[variable]).is_relative_to(mount) for mount in writable)


def test_workers_of_the_kubernetes_manifest_use_service_and_preload() -> None:
    arguments = containers()["worker"]["command"] + containers()["worker"]["args"]
    service = MANIFEST[0]
    assert f"tls://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}" in arguments
    assert "--preload=dkdist.preload" in arguments


@pytest.mark.parametrize("name", ["scheduler", "worker"])
def test_options_of_the_kubernetes_manifest_are_valid(name: str) -> None:
    """Dask's command line accepts all options."""
    container = containers()[name]
    command = {"scheduler": dask_scheduler, "worker": dask_worker}[name].main
    arguments = [*container["command"], *container["args"]][2:]
    known_options = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {word.split("=")[0] for word in arguments if word.startswith("--")} <= known_options


def test_all_recipes_are_tested() -> None:
    """New recipes of the document need a test."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    for heading in re.findall("^## (.*)", TEXT, re.MULTILINE):
        assert not blocks(heading) or f'"{heading}"' in tests


def test_commands_open_no_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands start no cluster, because local work needs no open port."""
    monkeypatch.setattr(socket.socket, "listen", lambda *_: pytest.fail("a socket was opened"))
    store, model = str(tmp_path / "bags.zarr"), str(tmp_path / "model.npz")
    dk.write_sets(store, np.random.default_rng(0).random((12, 5, 2)), targets={"y": np.arange(12.0)})
    assert main(["fit", store, "--target", "y", "--features", "50", "--model", model]) == 0
    assert main(["score", store, "--target", "y", "--model", model]) == 0
    started = re.compile(r"\b(LocalCluster|Nanny|SpecCluster|Scheduler|Worker)\(")
    for path in (ROOT / "dkdist").rglob("*.py"):
        assert not started.search(path.read_text()), path
