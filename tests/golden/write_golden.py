"""Write the golden arrays: ``PYTHONPATH=.:tests python -m golden.write_golden``, perhaps followed by names of cases.

Cases that are not named keep their arrays. Rewrite a case only for an intended change of its numbers, and state in the
commit why the new ones are right.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from .all_cases import CASES
from .harness import ARCHIVES, FOLDER, load, summaries
from .inputs import Inputs


def write(names: list[str]) -> None:
    for archive in ARCHIVES:
        path = FOLDER / f"{archive}.npz"
        golden = load(archive) if path.exists() else {}
        cases = [case for case in CASES.values() if case.archive == archive]
        rewritten = [case for case in cases if not names or case.name in names]
        unchanged = {case.name for case in cases} - {case.name for case in rewritten}
        golden = {key: values for key, values in golden.items() if key.split("/")[0] in unchanged}
        for case in rewritten:
            with tempfile.TemporaryDirectory() as folder:
                golden.update(summaries(case, case.compute(Inputs(case.forms[0], Path(folder)))))
        np.savez_compressed(path, allow_pickle=False, **dict(sorted(golden.items())))
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    warnings.simplefilter("error")
    if unknown := set(sys.argv[1:]) - CASES.keys():
        raise SystemExit(f"unknown cases: {sorted(unknown)}")
    write(sys.argv[1:])
