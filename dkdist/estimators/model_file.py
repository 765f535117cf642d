"""Model files: a fitted estimator or pipeline as one .npz file of arrays and a JSON text, never a pickle.

    model.json   {"format": "dkdist.model", "version": 1, "sha256": ..., "model": ...}
    array_0 ...  the arrays the text refers to

Parameters and fitted attributes are numbers, strings, arrays and records of plain numbers; classes are named,
and only those on a list are ever made again. Reading a file from a stranger runs no code of theirs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._model_text import Arrays, describe, make, require_fitted

FORMAT, VERSION, HEADER = "dkdist.model", 1, "model.json"


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator of this library, or a scikit-learn Pipeline of them, as one file.

    Parameters
    ----------
    model : fitted estimator
        An estimator of dkdist, scikit-learn's ``StandardScaler``, or a ``Pipeline`` of these.
    path : path-like
        The file to write, usually ``*.npz``; what is there is replaced in one step, or stays as it was.

    Raises
    ------
    NotFittedError
        If the model, or a step of it, was not fitted.
    ValueError
        Naming the step and the parameter, for anything that is not plain data: a function of your own as
        ``divergence``, a ``Generator`` as ``random_state``, an estimator of another library. (A function
        cannot be kept without running code on loading; pickle such a model, for those who trust you.)

    Notes
    -----
    Loaded models predict the same bits on processors of one kind, and go on with ``partial_fit`` where the saved one
    stopped. A classifier of 5000 features and ten classes takes 200 KB (ridge) or 600 KB (SGD, for ``partial_fit``).

    Examples
    --------
    >>> import os, tempfile, numpy as np, dkdist as dk
    >>> X = np.random.default_rng(0).standard_normal((100, 3)).astype("f4")
    >>> model = dk.RandomFourierFeatures(10, random_state=0).fit(X)
    >>> path = os.path.join(tempfile.mkdtemp(), "features.npz")
    >>> dk.save_model(model, path)
    >>> bool((dk.load_model(path).transform(X) == model.transform(X)).all())
    True
    """
    require_fitted(model)
    arrays: Arrays = {}
    described = describe(model, "the model", arrays)
    header = {"format": FORMAT, "version": VERSION, "sha256": _sha256(described, arrays), "model": described}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    target = Path(path)
    beside = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            np.savez(file, allow_pickle=False, **{HEADER: text}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save_model` saved; it predicts the same bits on processors of one kind.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator or Pipeline
        Fitted.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no model file, is damaged, is of a newer version, or names a class not on the list.

    Notes
    -----
    Nothing is unpickled, so a file from a stranger can predict nonsense but run nothing.
    """
    members = _members(Path(path))
    header = _header(members, path)
    try:
        arrays = {name: _array(data) for name, data in members.items()}
        whole = header["sha256"] == _sha256(header["model"], arrays)
    except Exception as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if not whole:
        raise _damaged(path, "its checksum does not match its content")
    try:
        return make(header["model"], arrays)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} describes a model that this version of dkdist cannot make "
            f"({type(error).__name__}: {error}): load it with the version that saved it"
        ) from error


def _members(path: Path) -> dict[str, bytes]:
    """The files in the archive, whole: the zip layer checks a crc32 of each."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    except Exception as error:  # zipfile raises half a dozen kinds for broken archives
        raise ValueError(
            f"{path} is no model file, or a damaged one ({type(error).__name__}: {error}): "
            "expected a .npz file written by dkdist.save_model"
        ) from error


def _header(members: dict[str, bytes], path: Any) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(_array(members.pop(HEADER)).tobytes())
        found = header["format"], header["version"]
    except Exception as error:
        raise ValueError(
            f"{path} is no model file ({type(error).__name__}: {error}): "
            "expected one written by dkdist.save_model"
        ) from error
    if found[0] != FORMAT:
        raise ValueError(f"{path} has format {found[0]!r}, expected {FORMAT!r}")
    if found[1] != VERSION:
        raise ValueError(
            f"{path} is of version {found[1]}, this library reads version {VERSION}: "
            "update dkdist, or save the model again"
        )
    return header


def _damaged(path: Any, found: str) -> ValueError:
    return ValueError(
        f"the model file {path} is damaged ({found}): restore it from a copy, or fit and save again"
    )


def _array(data: bytes) -> NDArray[Any]:
    return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))


def _sha256(described: Any, arrays: Arrays) -> str:
    total = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
