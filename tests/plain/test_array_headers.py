"""Headers of .npy files: those in NumPy's own words are read as NumPy reads them, without a parser of Python."""

from __future__ import annotations

import ast
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dkdist._utils.archives import ArchiveError, read_header

DTYPES = st.sampled_from(["<f4", ">f8", "<i2", "|u1", "|b1", "<U7", "|S3", "<c16", "=f8", "<f2"])


def saved(array, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    size = stream.tell()
    stream.seek(0)
    return stream, size


@given(DTYPES, arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4), st.booleans())
def test_header_is_what_numpy_wrote(dtype, shape, fortran):
    array = np.zeros(shape, dtype, order="F" if fortran else "C")
    for version in ((1, 0), (2, 0)):
        stream, size = saved(array, version)
        header = read_header("array", stream, size)
        assert (header.shape, header.dtype) == (array.shape, array.dtype)
        assert header.start == stream.tell() == size - array.nbytes
        if array.ndim > 1 and array.size > 1 and not array.flags.c_contiguous:
            assert header.order == "F"


def test_nothing_is_parsed_as_python(monkeypatch):
    def refused(*_, **__):
        raise SystemError("AST constructor recursion depth mismatch (before=66, after=62)")

    stream, size = saved(np.arange(6.0).reshape(2, 3))
    monkeypatch.setattr(ast, "literal_eval", refused)
    assert read_header("array", stream, size).shape == (2, 3)


@pytest.mark.parametrize(
    "words",
    [
        b"{'descr':'<f8','fortran_order':False,'shape':(2,3)}",
        b"{'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'}",
    ],
)
def test_others_words_are_read_as_numpy_reads_them(words):
    stream = io.BytesIO(
        b"\x93NUMPY\x01\x00" + (len(words) + 1).to_bytes(2, "little") + words + b"\n" + bytes(48)
    )
    header = read_header("array", stream, len(stream.getvalue()))
    assert (header.shape, header.dtype, header.order) == ((2, 3), np.dtype("<f8"), "C")


@pytest.mark.parametrize("descr", [b"O", b"|O"])
def test_objects_are_refused(descr):
    words = b"{'descr': '" + descr + b"', 'fortran_order': False, 'shape': (0,), }\n"
    stream = io.BytesIO(b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words)
    with pytest.raises(ArchiveError, match="Python objects"):
        read_header("array", stream, len(stream.getvalue()))
