"""Model files: a fitted estimator or pipeline as one .npz file of arrays and a JSON text, never a pickle.

    model.json   {"format": "dkdist.model", "version": 1, "saved_by": ..., "sha256": ..., "model": ...}
    array_0 ...  the arrays that the text refers to

"saved_by" holds versions of libraries, for information only. Parameters and fitted attributes are numbers, strings,
arrays and records of plain numbers. Classes are stored by name and only listed classes are created, so reading an
untrusted file runs no code from it. `summarize_file` creates no estimator.
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

FORMAT, VERSION, HEADER = "dkdist.model", 1, "model.json"  # file format; tests/files/test_model_file.py


def save_model(model: Any, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Save a fitted estimator of this library, or a scikit-learn Pipeline of them, as one file.

    Parameters
    ----------
    model : fitted estimator
        An estimator of dkdist, including `SetClassifier`, `SetRegressor`, `SetSurvival` and `OnePassSearch`,
        scikit-learn's ``StandardScaler``, or a ``Pipeline`` of these.
    path : path-like
        The file to write, usually ``*.npz``. An existing file is replaced atomically.
    overwrite : bool, default=True
        Replace an existing file. With False only one of several processes that save to one path succeeds.

    Raises
    ------
    FileExistsError
        If ``path`` exists and ``overwrite`` is false.
    NotFittedError
        If the model, or one of its steps, is not fitted.
    ValueError
        For parameters that are not plain data; the message names the step and the parameter. Examples are a function as
        ``divergence`` or ``scoring``, a splitter as ``cv``, a ``Generator`` as ``random_state``, and an estimator of
        another library. (Loading a function would run code; pickle such a model for users who trust you.) Predictions
        of fitted automatic models and searches do not depend on these parameters: replace them first, for example
        ``model.set_params(cv="auto", random_state=None)``. The function of a `FunctionEmbedding` is stored as its name
        ``module:qualname``; lambdas and local functions raise.

    Notes
    -----
    ``memory`` of a Pipeline, and ``checkpoint`` and ``cache`` of a learner, may be paths and are not saved: a loaded
    model has None, or "auto". Predictions of loaded models are bitwise identical on processors of one type.
    SGD resumes with ``partial_fit``; a ridge does not, because its sums (16 D^2 bytes) are not saved. A classifier of
    5000 features and ten classes takes 200 KB (ridge) or 600 KB (SGD).

    A loaded `SetClassifier` or `SetRegressor` has all fitted attributes, and all methods return bitwise identical
    results, including ``explain``, ``summary`` and ``best_estimator_``. The file contains training data: the rows (n,
    m), targets and weights of each kernel member, and as ``background_`` up to 16 sets of up to 512 points. Do not
    share it if these are confidential.

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
    header = {
        "format": FORMAT,
        "version": VERSION,
        "saved_by": _versions(),
        "sha256": _sha256(described, arrays),
        "model": described,
    }
    text = json.dumps(header).encode()
    _require_readable(text, arrays)
    with atomic_file(path, overwrite=overwrite) as file:
        np.savez(file, allow_pickle=False, **{HEADER: np.frombuffer(text, np.uint8)}, **arrays)


def _require_readable(text: bytes, arrays: Arrays) -> None:
    """Raise for a model that is too large for `load_model`."""
    try:
        read_json(text, {})
        if len(arrays) >= MAX_MEMBERS:
            raise ValueError(f"it must have fewer than {MAX_MEMBERS} arrays; got {len(arrays)}")
    except ValueError as error:
        raise ValueError(f"the model is too large for a model file: {error}") from error


def load_model(
    path: str | os.PathLike[str],
    functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] = (),
) -> Any:
    """Load a model from `save_model`; predictions are bitwise identical on processors of one type.

    Parameters
    ----------
    path : path-like
    functions : iterable of callables, or mapping from names to callables, default=()
        The functions that the model may call, such as that of a `FunctionEmbedding`. A file names them as
        ``module:qualname``; loading never imports them. Pass a mapping if a function was moved:
        ``{"old_module:features": features}``.

    Returns
    -------
    estimator or Pipeline
        Fitted, with the saved parameters.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is not a model file, is damaged, has a newer version, or names an unlisted class or a function that
        was not passed.

    Notes
    -----
    Nothing is unpickled, no path in the file is read or written, and sizes are checked before memory is allocated: an
    untrusted file can give wrong predictions but cannot run code. Its parts must have valid types, finite values and
    consistent sizes.

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
            f"{path} describes a model that this version of dkdist cannot load "
            f"({type(error).__name__}: {str(error).removesuffix('.')}). Load it with the version that saved it."
        ) from error
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"{path} must hold an estimator; got {type(model).__name__}. Save the model again.")
    return model


def read_model_file(path: Any) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a valid model file, without creating objects; ValueError otherwise."""
    header, arrays = _read(path)
    if header["sha256"] != _sha256(header["model"], arrays):
        raise ValueError(
            f"the model file {path} is damaged (its checksum does not match its content). Restore it from a copy, or "
            "fit and save again."
        )
    return header, arrays


def _read(path: Any) -> tuple[dict[str, Any], Arrays]:
    """Read the header and the arrays of a file, with sizes checked before reading."""
    try:
        with open_archive(path, compressed=False) as archive:
            names = archive.names
            if HEADER not in names:
                raise ArchiveError(f"it has no {HEADER}; it has {', '.join(names[:5]) or 'nothing'}")
            header = _header(archive.read(HEADER), path)
            arrays = {name: archive.read(name) for name in names if name != HEADER}
    except _UnsupportedFileError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{path} is not a model file, or is damaged ({error}). Pass a file written by dkdist.save_model."
        ) from error
    return header, arrays


class _UnsupportedFileError(ValueError):
    """Error for a file of another format or version."""


def _header(text: NDArray[Any], path: Any) -> dict[str, Any]:
    if text.dtype != np.uint8 or text.ndim != 1:
        raise ArchiveError(f"its {HEADER} is not text")
    header = read_json(text.tobytes(), {"format": str, "version": int})
    if header["format"] != FORMAT:
        raise _UnsupportedFileError(
            f"{path} is not a model file: its format must be {FORMAT!r}; got {header['format']!r:.80}."
        )
    if header["version"] != VERSION:
        raise _UnsupportedFileError(
            f"{path} must have version {VERSION}; got version {header['version']}. To read it, update dkdist, or save "
            "the model again."
        )
    return read_json(text.tobytes(), {"sha256": str, "model": dict})


def _versions() -> dict[str, str]:
    return {"dkdist": dkdist.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}


def _sha256(described: Any, arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


MAX_SHOWN_VALUES = 20  # longer arrays are described by dtype and shape; tests/cli/test_model_info.py
PASSTHROUGH = "passthrough"


class StepSummary(NamedTuple):
    """Step of a pipeline: its name, class, parameters and short fitted attributes."""

    step: str
    estimator: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]


class ModelSummary(NamedTuple):
    """Content of a model file in plain values; ``saved_by`` maps libraries to versions, if present."""

    format_version: int
    saved_by: dict[str, str] | None
    steps: list[StepSummary]

    @property
    def _estimators(self) -> list[StepSummary]:
        """Steps that are not passthrough; all steps if there are no others."""
        return [step for step in self.steps if step.estimator != PASSTHROUGH] or self.steps

    @property
    def n_dims(self) -> int | None:
        """Number of input dimensions (or features) of the first step."""
        return self._estimators[0].fitted.get("n_features_in_")

    @property
    def n_features(self) -> int | None:
        """Number of input features of the last step."""
        return self._estimators[-1].fitted.get("n_features_in_")

    @property
    def origin(self) -> Any:
        """Origin that is subtracted from the points."""
        return self._estimators[0].fitted.get("origin_")

    @property
    def classes(self) -> Any:
        """Classes; None for a regressor or without a learner."""
        return self._estimators[-1].fitted.get("classes_")


def summarize_file(path: str | os.PathLike[str]) -> ModelSummary:
    """Return the content of a valid model file; ValueError otherwise, as from `load_model`."""
    header, arrays = read_model_file(path)
    versions = header.get("saved_by")
    has_versions = isinstance(versions, dict) and all(type(text) is str for text in versions.values())
    try:
        steps = [_step(name, described, arrays) for name, described in _named_steps(header["model"])]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} describes a model that this version of dkdist cannot read "
            f"({type(error).__name__}: {str(error).removesuffix('.')}). Use the version that saved it."
        ) from error
    return ModelSummary(header["version"], versions if has_versions else None, steps)


def _named_steps(described: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return (name, description) of each step of a pipeline; for another estimator, its own with an empty name."""
    if described["estimator"] != "Pipeline":
        return [("", described)]
    pairs = [step["tuple"] for step in described["params"]["steps"]["list"]]
    return [(str(name), step) for name, step in pairs]


def _step(name: str, described: Any, arrays: Arrays) -> StepSummary:
    if described in (None, PASSTHROUGH):
        return StepSummary(str(name), PASSTHROUGH, {}, {})
    parameters = {key: _plain(value, arrays, expand=True) for key, value in described["params"].items()}
    fitted = {key: _plain(value, arrays, expand=False) for key, value in described["fitted"].items()}
    return StepSummary(str(name), str(described["estimator"]), parameters, fitted)


def _plain(described: Any, arrays: Arrays, *, expand: bool) -> Any:
    """Convert a stored value for display: long arrays, and records unless ``expand``, become their names."""
    if not isinstance(described, dict):
        return described
    first: tuple[str, Any] = next(iter(described.items()), ("nothing", ""))
    tag, content = first
    match tag:
        case "array" | "scalar":
            array = arrays[content]
            is_short = array.ndim < 2 and array.size <= MAX_SHOWN_VALUES
            return array.tolist() if is_short else f"{array.dtype} array of shape {array.shape}"
        case "number":
            return content
        case "strings":
            return list(content) if len(content) <= MAX_SHOWN_VALUES else f"{len(content)} strings"
        case "function":
            return str(content)
        case "tuple" | "list":
            return [_plain(item, arrays, expand=expand) for item in content]
        case "dict":
            return {str(_plain(k, arrays, expand=True)): _plain(v, arrays, expand=expand) for k, v in content}
        case "masked":
            return _plain(content["data"], arrays, expand=expand)
        case "sets":
            parts: dict[str, Any] = described["sets"]
            return f"{len(arrays[parts['offsets']['array']]) - 1} sets"
        case "record":
            fields = described.get("fields", {"items": {"list": described.get("items")}}) if expand else {}
            return {"record": content} | {
                key: _plain(value, arrays, expand=True) for key, value in fields.items()
            }
        case "estimator":
            params = described["params"] if expand else {}
            return {"estimator": content} | {
                key: _plain(value, arrays, expand=True) for key, value in params.items()
            }
    raise LookupError(f"{tag!r:.80} is not a tag of model files")
