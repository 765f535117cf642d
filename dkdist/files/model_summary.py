"""What a model file holds, read from its text alone: no estimator is made, so that nothing of it can run."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from dkdist.files.model_file import read_model_file
from dkdist.files.model_text import Arrays

SHORT = 20  # values of an array that are told one by one; of a longer one its dtype and shape


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


def summary_of_file(path: str | os.PathLike[str]) -> ModelSummary:
    """What a whole model file says of itself; ValueError for any other file, as `load_model` has it."""
    header, arrays = read_model_file(path)
    versions = header.get("saved_by")
    told = isinstance(versions, dict) and all(type(one) is str for one in versions.values())
    try:
        steps = [_step(name, described, arrays) for name, described in _named_steps(header["model"])]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} describes a model that this version of dkdist cannot read "
            f"({type(error).__name__}: {error}): look at it with the version that saved it"
        ) from error
    return ModelSummary(header["version"], versions if told else None, steps)


def _named_steps(described: dict[str, Any]) -> list[tuple[str, Any]]:
    """The (name, description) of every step of a pipeline; of another estimator itself, without a name."""
    if described["estimator"] != "Pipeline":
        return [("", described)]
    pairs = [step["tuple"] for step in described["params"]["steps"]["list"]]
    return [(str(name), made) for name, made in pairs]


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
            short = array.ndim < 2 and array.size <= SHORT
            return array.tolist() if short else f"{array.dtype} array of shape {array.shape}"
        case "number":
            return content
        case "strings":
            return list(content) if len(content) <= SHORT else f"{len(content)} strings"
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
