"""The documentation of storage: its snippets run in order with its environment, and its limits match the code."""

import os
import re
from pathlib import Path

import pytest

from dkdist.io._zarr.location import remote as retry

from . import servers

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.network
def test_every_snippet_runs(moto_url, tmp_path, monkeypatch):
    pytest.importorskip("s3fs")
    pytest.importorskip("obstore")
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"\b(AWS_\w+)=", "".join(blocks("sh"))):
        assert os.environ[name]
    names = {"KEY": servers.KEY, "SECRET": servers.SECRET, "ENDPOINT": moto_url}
    with servers.web(servers.files(tmp_path)) as host:
        for text in blocks("python"):
            exec(compile(text.replace("localhost:8000", host), str(PAGE), "exec"), names)
    assert names["features"].shape[0] == 200
    assert names["model"].score(names["embedding"].transform(names["bags"]), names["y"]) > 0.9


def test_documented_retry_limits_match_the_code():
    text = " ".join(PAGE.read_text().split())
    assert f"repeated up to {'eight' if retry.MAX_ATTEMPTS == 8 else retry.MAX_ATTEMPTS} times" in text
    assert f"({retry.FIRST_PAUSE_SECONDS:g} s doubling to {retry.MAX_PAUSE_SECONDS:g} s)" in text
    assert (
        f"at most {retry.ATTEMPT_TIMEOUT_SECONDS:g} s and all of them together {retry.TOTAL_TIMEOUT_SECONDS:g} s"
        in text
    )
    assert f"given up after {retry.FIRST_CONTACT_TIMEOUT_SECONDS:g} s" in text
    message = {
        int(n)
        for n in re.search(r"HTTP ([\d, and]+), S3", text)[1].replace("and", ",").split(",")
        if n.strip()
    }
    assert message == retry.RETRYABLE_STATUS
