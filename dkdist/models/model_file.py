"""What a model file holds, read from its text alone: no estimator is made, so that nothing of it can run.

Model files: a fitted estimator or pipeline as one .npz file of arrays and a JSON text, never a pickle.

    model.json   {"format": "dkdist.model", "version": 1, "saved_by": ..., "sha256": ..., "model": ...}
    array_0 ...  the arrays the text refers to

"saved_by" holds versions of libraries for people to look at, and is not relied on.

Parameters and fitted attributes are numbers, strings, arrays and records of plain numbers; classes are named,
and only those on a list are ever made again. Reading a file from a stranger runs no code of theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

import dkdist
from dkdist._utils._tuning import MAX_MEMBERS
from dkdist._utils.archives import ArchiveError, open_archive
from dkdist._utils.files import atomic_file
from dkdist._utils.text import read_json
from dkdist._utils.validation import check_bool
from dkdist.models.model_text import Arrays, describe, make, passed_functions, require_fitted

FORMAT, VERSION, HEADER = "dkdist.model", 1, "model.json"  # format; tests/files/test_model_file.py


def save_model(model: Any, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Save a fitted estimator of this library, or a scikit-learn Pipeline of them, as one file.

    Parameters
    ----------
    model : fitted estimator
        An estimator of dkdist, `SetClassifier`, `SetRegressor` and `OnePassSearch` included, scikit-learn's
        ``StandardScaler``, or a ``Pipeline`` of these.
    path : path-like
        The file to write, usually ``*.npz``; what is there is replaced in one step, or stays as it was.
    overwrite : bool, default=True
        Replace a file that exists. With False only one of several processes that save to one path succeeds.

    Raises
    ------
    FileExistsError
        If ``path`` exists and ``overwrite`` is false.
    NotFittedError
        If the model, or a step of it, was not fitted.
    ValueError
        Naming the step and the parameter, for anything that is not plain data: a function of your own as
        ``divergence`` or ``scoring``, a splitter as ``cv``, a ``Generator`` as ``random_state``, an estimator of
        another library. (A function cannot be kept without running code on loading; pickle such a model, for those
        who trust you.) Predictions of fitted automatic models and searches do not depend on these parameters: replace
        them first, for example ``model.set_params(cv="auto", random_state=None)``. The function of a
        `FunctionEmbedding` is kept by its name ``module:qualname``; lambdas and local functions are refused.

    Notes
    -----
    A Pipeline's ``memory`` and a learner's ``checkpoint`` and ``cache``, which may be places on your disk, are not
    kept: a loaded model has None, or "auto", there. Loaded models predict the same bits on processors of one kind, and
    SGD goes on with ``partial_fit`` where the saved one stopped; a ridge does not, whose sums (16 D^2 bytes) are not
    saved. A classifier of 5000
    features and ten classes takes 200 KB (ridge) or 600 KB (SGD, for ``partial_fit``).

    A loaded `SetClassifier` or `SetRegressor` has all fitted attributes and gives the same bits from all methods,
    ``explain``, ``summary`` and ``best_estimator_`` included. The file holds the rows (n, m) of the sets that each
    kernel member learned from, and their targets and weights: do not share it where those are confidential. It holds
    up to 16 sets of the training with up to 512 points each, as ``background_``.

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
    overwrite = check_bool("overwrite", overwrite)
    require_fitted(model)
    arrays: Arrays = {}
    described = describe(model, "the model", arrays)
    total = _sha256(described, arrays)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "saved_by": _versions(),
        "sha256": total,
        "model": described,
    }
    text = json.dumps(header).encode()
    _require_readable(text, arrays)
    with atomic_file(path, overwrite=overwrite) as file:
        np.savez(file, allow_pickle=False, **{HEADER: np.frombuffer(text, np.uint8)}, **arrays)


def _require_readable(text: bytes, arrays: Arrays) -> None:
    """Refuse a model that `load_model` would refuse for its size."""
    try:
        read_json(text, {})
        if len(arrays) >= MAX_MEMBERS:
            raise ValueError(f"it has {len(arrays)} arrays, expected fewer than {MAX_MEMBERS}")
    except ValueError as error:
        raise ValueError(f"the model is too large for a model file: {error}") from error


def load_model(
    path: str | os.PathLike[str],
    functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] = (),
) -> Any:
    """Load a model that `save_model` saved; it predicts the same bits on processors of one kind.

    Parameters
    ----------
    path : path-like
    functions : iterable of callables, or mapping from names to callables, default=()
        The functions that the model may call, such as that of a `FunctionEmbedding`. A file names them as
        ``module:qualname`` and never imports them. Pass a mapping if a function has moved since:
        ``{"old_module:features": features}``.

    Returns
    -------
    estimator or Pipeline
        Fitted, with the parameters it was saved with.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no model file, is damaged, is of a newer version, or names a class that is not on the list or a
        function that was not passed.

    Notes
    -----
    Nothing is unpickled, no place on the disk that the file names is read or written, and what it claims is checked
    before it is given memory: a file from a stranger can predict nonsense but run nothing. Its parts must be of their
    kind, finite, and of sizes that fit each other.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> sets = dk.SampleSets(np.arange(12.0).reshape(6, 2), [0, 2, 6])
    >>> path = tempfile.mkdtemp() + "/means.dkdist"
    >>> model = dk.MomentEmbedding().fit(sets)
    >>> dk.save_model(model, path)
    >>> np.array_equal(dk.load_model(path).transform(sets), model.transform(sets))
    True
    """
    header, arrays = read_model_file(path)
    try:
        with passed_functions(functions):
            model = make(header["model"], arrays)
        require_fitted(model)
    except (LookupError, ArithmeticError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} describes a model that this version of dkdist cannot make "
            f"({type(error).__name__}: {error}): load it with the version that saved it"
        ) from error
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"{path} holds a {type(model).__name__}, expected a model: save it again")
    return model


def read_model_file(path: Any) -> tuple[dict[str, Any], Arrays]:
    """The text and the arrays of a model file that is whole; ValueError for any other. Nothing is made of them yet."""
    header, arrays = _read(path)
    if header["sha256"] != _sha256(header["model"], arrays):
        raise ValueError(
            f"the model file {path} is damaged (its checksum does not match its content): restore it from a copy, or "
            "fit and save again"
        )
    return header, arrays


def _read(path: Any) -> tuple[dict[str, Any], Arrays]:
    """The text and the arrays of a file, whose sizes are known before they are read."""
    try:
        with open_archive(path, compressed=False) as archive:
            names = archive.names
            if HEADER not in names:
                raise ArchiveError(f"it has no {HEADER}, but {', '.join(names[:5]) or 'nothing'}")
            header = _header(archive.read(HEADER), path)
            arrays = {name: archive.read(name) for name in names if name != HEADER}
    except _UnsupportedFileError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{path} is no model file, or a damaged one ({error}): "
            "expected a .npz file written by dkdist.save_model"
        ) from error
    return header, arrays


class _UnsupportedFileError(ValueError):
    """A file of another format or version."""


def _header(text: NDArray[Any], path: Any) -> dict[str, Any]:
    if text.dtype != np.uint8 or text.ndim != 1:
        raise ArchiveError(f"its {HEADER} is no text")
    header = read_json(text.tobytes(), {"format": str, "version": int})
    if header["format"] != FORMAT:
        raise _UnsupportedFileError(
            f"{path} has format {header['format']!r:.80}, expected {FORMAT!r}: it is no model file"
        )
    if header["version"] != VERSION:
        raise _UnsupportedFileError(
            f"{path} is of version {header['version']}, this library reads version {VERSION}: "
            "update dkdist, or save the model again"
        )
    return read_json(text.tobytes(), {"sha256": str, "model": dict})


def _versions() -> dict[str, str]:
    return {"dkdist": dkdist.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}


def _sha256(described: Any, arrays: Arrays) -> str:
    total = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


MAX_SHOWN_VALUES = 20  # longer arrays are shown by dtype and shape; tests/cli/test_model_info.py


PASSTHROUGH = "passthrough"


class StepSummary(NamedTuple):
    """One step: its name in the pipeline, its class, its parameters and the short ones of its fitted attributes."""

    step: str
    estimator: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]


class ModelSummary(NamedTuple):
    """A model file in plain values; ``saved_by`` are versions by library, if the file says so."""

    format_version: int
    saved_by: dict[str, str] | None
    steps: list[StepSummary]

    @property
    def _estimators(self) -> list[StepSummary]:
        """Steps that transform or predict; all steps if there is none."""
        return [step for step in self.steps if step.estimator != PASSTHROUGH] or self.steps

    @property
    def n_dims(self) -> int | None:
        """Dimensions of the points, or features of the rows, that the first step takes."""
        return self._estimators[0].fitted.get("n_features_in_")

    @property
    def n_features(self) -> int | None:
        """Features that the last step takes."""
        return self._estimators[-1].fitted.get("n_features_in_")

    @property
    def origin(self) -> Any:
        """What points are counted from."""
        return self._estimators[0].fitted.get("origin_")

    @property
    def classes(self) -> Any:
        """The classes that are told apart; None for a model of numbers or without a learner."""
        return self._estimators[-1].fitted.get("classes_")


def summarize_file(path: str | os.PathLike[str]) -> ModelSummary:
    """What a whole model file says of itself; ValueError for any other file, as `load_model` has it."""
    header, arrays = read_model_file(path)
    versions = header.get("saved_by")
    message = isinstance(versions, dict) and all(type(one) is str for one in versions.values())
    try:
        steps = [_step(name, described, arrays) for name, described in _named_steps(header["model"])]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} describes a model that this version of dkdist cannot read "
            f"({type(error).__name__}: {error}): look at it with the version that saved it"
        ) from error
    return ModelSummary(header["version"], versions if message else None, steps)


def _named_steps(described: dict[str, Any]) -> list[tuple[str, Any]]:
    """The (name, description) of every step of a pipeline; of another estimator itself, without a name."""
    if described["estimator"] != "Pipeline":
        return [("", described)]
    pairs = [step["tuple"] for step in described["params"]["steps"]["list"]]
    return [(str(name), output) for name, output in pairs]


def _step(name: str, described: Any, arrays: Arrays) -> StepSummary:
    if described in (None, PASSTHROUGH):
        return StepSummary(str(name), PASSTHROUGH, {}, {})
    parameters = {key: _plain(value, arrays, all_of=True) for key, value in described["params"].items()}
    known = {key: _plain(value, arrays, all_of=False) for key, value in described["fitted"].items()}
    return StepSummary(str(name), str(described["estimator"]), parameters, known)


def _plain(described: Any, arrays: Arrays, *, all_of: bool) -> Any:
    """A described value as plain Python; of long arrays, and of records unless ``all_of``, what they are."""
    if not isinstance(described, dict):
        return described
    first: tuple[str, Any] = next(iter(described.items()), ("nothing", ""))
    tag, content = first
    match tag:
        case "array" | "scalar":
            array = arrays[content]
            short = array.ndim < 2 and array.size <= MAX_SHOWN_VALUES
            return array.tolist() if short else f"{array.dtype} array of shape {array.shape}"
        case "number":
            return content
        case "strings":
            return list(content) if len(content) <= MAX_SHOWN_VALUES else f"{len(content)} strings"
        case "function":
            return str(content)
        case "tuple" | "list":
            return [_plain(item, arrays, all_of=all_of) for item in content]
        case "dict":
            return {str(_plain(k, arrays, all_of=True)): _plain(v, arrays, all_of=all_of) for k, v in content}
        case "masked":
            return _plain(content["data"], arrays, all_of=all_of)
        case "sets":
            parts: dict[str, Any] = described["sets"]
            return f"{len(arrays[parts['offsets']['array']]) - 1} sets"
        case "record":
            fields = described.get("fields", {"items": {"list": described.get("items")}}) if all_of else {}
            return {"record": content} | {
                key: _plain(value, arrays, all_of=True) for key, value in fields.items()
            }
        case "estimator":
            params = described["params"] if all_of else {}
            return {"estimator": content} | {
                key: _plain(value, arrays, all_of=True) for key, value in params.items()
            }
    raise LookupError(f"{tag!r:.80} stands for nothing in a model file")
