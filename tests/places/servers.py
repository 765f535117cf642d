"""Servers on free ports of 127.0.0.1: S3 by moto and by rclone, plain web servers, and a server that fails."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from pathlib import Path

BUCKET = "bucket"
KEY, SECRET = "AKTESTTESTTEST", "secretsecretsecret"
DUMMY_AWS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",  # tests must not contact other machines
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def moto():
    """Run an S3 server with conditional writes and byte ranges that accepts any credentials; yield its URL."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
        yield url
    finally:
        server.stop()


def rclone_program():
    beside = Path(sys.executable).parent / "rclone"
    return str(beside) if beside.exists() else shutil.which("rclone")


@contextlib.contextmanager
def rclone(folder):
    """Run an S3 server on a local folder that checks credentials, behind a serializing proxy; yield its URL.

    With concurrent uploads into a new folder, rclone 1.75 refuses some with status 500, and may return an empty body
    for an accepted one; earlier versions truncate. moto needs no proxy.
    """
    (Path(folder) / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [rclone_program(), "serve", "s3", f"--auth-key={KEY},{SECRET}", f"--addr=127.0.0.1:{port}"]
    command += ["--config=", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            with web(one_at_a_time(port)) as place:
                yield f"http://{place}"
        finally:
            server.terminate()


class OneAtATime(http.server.BaseHTTPRequestHandler):
    """Proxy that forwards one complete request at a time."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    port = 0
    turn = threading.Lock()

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.turn, contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as behind:
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    behind.putheader(name, value)
            behind.endheaders(body)
            answer = behind.getresponse()
            content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        self.wfile.write(content)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *args):
        pass


def one_at_a_time(port):
    """Return the class of a proxy for the server on a port."""
    return type("Handler", (OneAtATime,), {"port": port, "turn": threading.Lock()})


class Files(http.server.SimpleHTTPRequestHandler):
    """Serve the files of a folder without listings; ``user_info`` and ``query`` are required if set."""

    user_info = None
    query = None

    def do_GET(self):
        if self.user_info is not None and self.headers.get("Authorization") != self.user_info:
            self.send_error(401)
        elif self.query is not None and self.path.partition("?")[2] != self.query:
            self.send_error(403)
        else:
            super().do_GET()

    def list_directory(self, path):
        self.send_error(403)

    def log_message(self, *args):
        pass


class RangedFiles(Files):
    """The same with byte ranges, like nginx, Apache and object stores."""

    def send_head(self):
        requested = self.headers.get("Range")
        path = Path(self.translate_path(self.path))
        if requested is None or not path.is_file():
            return super().send_head()
        first, last = requested.removeprefix("bytes=").split("-")
        size = path.stat().st_size
        start = int(first) if first else size - int(last)
        stop = min(int(last) + 1, size) if first and last else size
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        file = path.open("rb")
        file.seek(start)
        self.copyfile = lambda source, target: target.write(source.read(stop - start))
        return file


class Failing(http.server.BaseHTTPRequestHandler):
    """Answer ``faults`` requests with a fault (a status, "reset" or "stall"), and the others from a folder."""

    faults = 0
    fault = 503
    served = 0
    folder = None
    stalled = None

    def do_GET(self):
        type(self).served += 1
        if type(self).faults > 0:
            type(self).faults -= 1
            return self.fail()
        path = Path(self.folder) / self.path.lstrip("/")
        if not path.is_file():
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        return self.wfile.write(path.read_bytes())

    do_HEAD = do_GET

    def fail(self):
        if self.fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.close_connection = True
            self.connection.close()
        elif self.fault == "stall":
            self.stalled.wait(30)
            self.close_connection = True
        else:
            self.send_error(self.fault)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def web(handler):
    """Run a web server with a handler class (or partial); yield its host and port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *args: None  # clients that hang up are what is tested
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def files(folder, *, ranges=False, **attributes):
    """Return a handler class for the files of a folder."""
    kind = type("Handler", (RangedFiles if ranges else Files,), attributes)
    return partial(kind, directory=str(folder))


def failing(folder, **attributes):
    """Return a handler class of a failing server for a folder."""
    return type("Handler", (Failing,), {"folder": folder, "stalled": threading.Event(), **attributes})
