"""Time of a fit from a store behind a server with latency, compared with the same store on a local disk.

    python benchmarks/object_store.py                # 51,200 sets, 30 and 100 ms
    python benchmarks/object_store.py --sets 512000

A web server of this machine answers each request after the latency. The same model is fitted from disk and from the
server in turn: moments of degree 2 and SGD with two epochs. The table shows requests per chunk and pass, and the
target: local time + 15 latencies + time of all bytes at once, with 64 requests in flight. The exit status is 1 if a
time exceeds its target, or if there are more than 1.1 requests per chunk and pass.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from common import options, start_report, write
from sklearn.pipeline import make_pipeline

import dkdist as dk

N_POINTS = 100
MAX_REQUESTS, N_LATENCIES, N_IN_FLIGHT = 1.1, 15, 64


async def _serve(folder: Path, latency: float, port: Any, n_requests: Any) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await answer_all(reader, writer)
        writer.close()

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readline():
            method, target, _ = request.decode().split()
            part = None
            while (line := await reader.readline()) not in (b"\r\n", b""):
                name, _, value = line.decode().partition(":")
                if name.lower() == "range":
                    part = value.strip().removeprefix("bytes=")
            n_requests.value += "/points/" in target and "zarr.json" not in target
            await asyncio.sleep(latency)
            path = folder / target.lstrip("/")
            data, status = (path.read_bytes(), "200 OK") if path.is_file() else (b"", "404 Not Found")
            extra = ""
            if part and data:
                start, _, stop = part.partition("-")
                size = len(data)
                first = int(start) if start else size - int(stop)
                last = min(int(stop), size - 1) if start and stop else size - 1
                data, status = data[first : last + 1], "206 Partial Content"
                extra = f"Content-Range: bytes {first}-{last}/{size}\r\n"
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nAccept-Ranges: bytes\r\n{extra}\r\n"
            writer.write(head.encode() + (b"" if method == "HEAD" else data))
            await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port.value = server.sockets[0].getsockname()[1]
    await server.serve_forever()


def _run_server(*args: Any) -> None:
    asyncio.run(_serve(*args))


@contextmanager
def serve(folder: Path, latency: float) -> Iterator[tuple[str, Any]]:
    """Serve a folder with a latency in seconds; return the URL and a counter of requests for chunks of points."""
    context = multiprocessing.get_context("spawn")
    port, n_requests = context.Value("i", 0), context.Value("i", 0)
    process = context.Process(target=_run_server, args=(folder, latency, port, n_requests), daemon=True)
    process.start()
    try:
        while not port.value:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port.value}", n_requests
    finally:
        process.terminate()
        process.join()


def _write_store(path: Path, n_sets: int) -> None:
    rng = np.random.default_rng(0)
    with dk.SetWriter(path, n_dims=2) as writer:
        for start in range(0, n_sets, 12_800):
            n = min(12_800, n_sets - start)
            writer.append(rng.standard_normal((n, N_POINTS, 2)).astype("f4"), targets=rng.random(n))


def _fit(place: Any, verbose: bool = False) -> float:
    """Return the seconds of opening a store and fitting a model."""
    started = time.perf_counter()
    sets = dk.open_sets(place)
    model = make_pipeline(
        dk.MomentEmbedding(degree=2), dk.IncrementalSGDRegressor(n_epochs=2, random_state=0)
    )
    model.fit(sets, sets.targets["y"])
    return time.perf_counter() - started


def _fetch_seconds(url: str, store: Path) -> float:
    """Return the seconds of fetching all chunks of points once, with 64 requests in flight."""
    import aiohttp

    names = [
        str(path.relative_to(store.parent)) for path in (store / "points" / "c").rglob("*") if path.is_file()
    ]

    async def fetch() -> None:
        slots = asyncio.Semaphore(N_IN_FLIGHT)

        async def get(session: aiohttp.ClientSession, name: str) -> None:
            async with slots, session.get(f"{url}/{name}") as response:
                await response.read()

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=N_IN_FLIGHT)) as session:
            await asyncio.gather(*(get(session, name) for name in names))

    started = time.perf_counter()
    asyncio.run(fetch())
    return time.perf_counter() - started


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--sets", type=int, default=51_200)
    parser.add_argument("--latencies", type=float, nargs="*", default=[30, 100], help="milliseconds")
    args = parser.parse_args()
    n_sets = 12_800 if args.quick else args.sets
    report: dict[str, Any] = start_report()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "sets.zarr"
        _write_store(store, n_sets)
        n_chunks = sum(path.is_file() for path in (store / "points" / "c").rglob("*"))
        _fit(store)  # compiles
        local = sorted(_fit(store) for _ in range(3))[1]
        print(f"{n_sets:,} sets in {n_chunks} chunks; local disk {local:.2f} s")
        for latency in args.latencies:
            with serve(Path(name), latency / 1000) as (url, n_requests):
                bytes_at_once = _fetch_seconds(url, store)
                n_requests.value = 0
                seconds = _fit(f"{url}/sets.zarr")
                n_passes = 2  # checks of all sets, and the first epoch, which keeps rows for the second
                requests = n_requests.value / n_chunks / n_passes
            target = local + N_LATENCIES * latency / 1000 + n_passes * bytes_at_once
            report[f"{latency:g} ms"] = {"seconds": seconds, "target": target, "requests": requests}
            failed |= seconds > target or requests > MAX_REQUESTS
            print(
                f"{latency:4.0f} ms   {seconds:6.2f} s   target {target:6.2f} s   all bytes {bytes_at_once:.2f} s   "
                f"{requests:.2f} requests per chunk and pass"
            )
    write(args.output, report)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
