"""Calling contexts of a fit: all rows of the table in docs/failures.md, run one after another in a process.

`python -m hangs.situations PLACE` prints a line for each context: its name, and the digests or the error.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
from distributed import Client, worker_client
from sklearn.model_selection import cross_val_score

from hangs.problem import fit, model, sets

Situation = Callable[[], list[Any]]


def by_threads() -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(fit, range(8)))


def _answer(queue: Any) -> None:
    try:
        queue.put(fit())
    except Exception as error:
        queue.put(f"{type(error).__name__}: {error}")


def _process(kind: str) -> list[Any]:
    context = multiprocessing.get_context(kind)
    queue = context.Queue()
    process = context.Process(target=_answer, args=(queue,), daemon=True)
    process.start()
    answer = queue.get(timeout=60)
    process.join(20)
    return [answer]


def by_fork() -> list[Any]:
    return _process("fork") + _process("fork")


def by_spawn() -> list[Any]:
    return _process("spawn")


def by_os_fork() -> list[Any]:
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, fit().encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        return [answer.read()]


def by_fork_at_work() -> list[Any]:
    """Fork while another thread fits repeatedly."""
    over, begun = threading.Event(), threading.Event()

    def work() -> None:
        while not over.is_set():
            fit()
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    answers = [_process("fork")[0] for _ in range(3)]
    over.set()
    thread.join()
    return answers


def _scores() -> list[Any]:
    data = sets()
    return list(cross_val_score(model(), data, data.targets["y"], cv=3))


def by_loky() -> list[Any]:
    with joblib.parallel_backend("loky", n_jobs=2):
        return _scores()


def by_joblib_dask() -> list[Any]:
    with joblib.parallel_backend("dask"):
        return _scores()


def by_event_loop() -> list[Any]:
    async def work() -> str:
        return fit()

    return [asyncio.run(work())]


def by_event_loop_and_threads() -> list[Any]:
    async def work() -> list[str]:
        return list(await asyncio.gather(*(asyncio.to_thread(fit) for _ in range(3))))

    return asyncio.run(work())


def _client() -> Client:
    return Client.current()


def by_tasks() -> list[Any]:
    return list(_client().gather(_client().map(fit, range(3), pure=False)))


def by_worker_client() -> list[Any]:
    def work(_: int) -> str:
        with worker_client():
            return fit()

    return list(_client().gather(_client().map(work, range(3), pure=False)))


def by_async_task() -> list[Any]:
    async def work() -> str:
        return fit()

    return [_client().submit(work, pure=False).result()]


def _with_async_client(call: Callable[[], Any]) -> list[Any]:
    async def work() -> Any:
        options = {"processes": False, "n_workers": 1, "dashboard_address": "127.0.0.1:0"}
        async with Client(asynchronous=True, **options):
            output = call()
            return await output if asyncio.iscoroutine(output) else output

    return [asyncio.run(work())]


def by_async_client() -> list[Any]:
    return _with_async_client(fit)


def by_async_client_in_a_thread() -> list[Any]:
    return _with_async_client(lambda: asyncio.to_thread(fit))


HERE: dict[str, Situation] = {
    "several threads, each with its own fit": by_threads,
    "`multiprocessing` with 'fork', after a fit": by_fork,
    "`os.fork`, after a fit": by_os_fork,
    "`multiprocessing` with 'fork', while another thread fits": by_fork_at_work,
    "`multiprocessing` with 'spawn'": by_spawn,
    "`joblib` with loky": by_loky,
    "a coroutine or a notebook, without a client": by_event_loop,
    "`asyncio.to_thread`, several at once": by_event_loop_and_threads,
}
WITH_A_CLIENT: dict[str, Situation] = {
    "a task of the cluster (`client.submit`), with one thread a worker": by_tasks,
    "a task that has a `worker_client`": by_worker_client,
    "`joblib.parallel_backend('dask')`": by_joblib_dask,
    "a coroutine or a notebook, with a client": by_event_loop,
    "several threads, one client": by_threads,
    "`multiprocessing` with 'fork', with a client": by_fork,
    "an `async def` task": by_async_task,
}
ASYNCHRONOUS: dict[str, Situation] = {
    "a coroutine with `Client(asynchronous=True)`": by_async_client,
    "`asyncio.to_thread` with `Client(asynchronous=True)`": by_async_client_in_a_thread,
}


def print_outcomes(situations: dict[str, Situation]) -> None:
    for name, call in situations.items():
        print(json.dumps({"begun": name}), flush=True)
        try:
            result = [a if isinstance(a, str) else float(a) for a in call()]
        except Exception as error:
            result = [f"{type(error).__name__}: {error}"]
        print(json.dumps({"name": name, "found": result}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "here":
        fit()
        print_outcomes(HERE)
        print_outcomes(ASYNCHRONOUS)
    else:
        with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
            print_outcomes(WITH_A_CLIENT)
    sys.stdout.flush()
    os._exit(0)
