"""Headers of .npy files: NumPy's standard format is parsed without the Python parser."""

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


def write_array(array, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    size = stream.tell()
    stream.seek(0)
    return stream, size


@given(DTYPES, arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4), st.booleans())
def test_read_header_matches_numpy(dtype, shape, fortran):
    array = np.zeros(shape, dtype, order="F" if fortran else "C")
    for version in ((1, 0), (2, 0)):
        stream, size = write_array(array, version)
        header = read_header("array", stream, size)
        assert (header.shape, header.dtype) == (array.shape, array.dtype)
        assert header.start == stream.tell() == size - array.nbytes
        if array.ndim > 1 and array.size > 1 and not array.flags.c_contiguous:
            assert header.order == "F"


def test_standard_headers_do_not_use_the_python_parser(monkeypatch):
    def fail(*_, **__):
        raise SystemError("AST constructor recursion depth mismatch (before=66, after=62)")

    stream, size = write_array(np.arange(6.0).reshape(2, 3))
    monkeypatch.setattr(ast, "literal_eval", fail)
    assert read_header("array", stream, size).shape == (2, 3)


@pytest.mark.parametrize(
    "header_bytes",
    [
        b"{'descr':'<f8','fortran_order':False,'shape':(2,3)}",
        b"{'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'}",
    ],
)
def test_other_header_formats_are_read(header_bytes):
    stream = io.BytesIO(
        b"\x93NUMPY\x01\x00"
        + (len(header_bytes) + 1).to_bytes(2, "little")
        + header_bytes
        + b"\n"
        + bytes(48)
    )
    header = read_header("array", stream, len(stream.getvalue()))
    assert (header.shape, header.dtype, header.order) == ((2, 3), np.dtype("<f8"), "C")


@pytest.mark.parametrize("descr", [b"O", b"|O"])
def test_object_dtypes_raise(descr):
    header_bytes = b"{'descr': '" + descr + b"', 'fortran_order': False, 'shape': (0,), }\n"
    stream = io.BytesIO(b"\x93NUMPY\x01\x00" + len(header_bytes).to_bytes(2, "little") + header_bytes)
    with pytest.raises(ArchiveError, match="Python objects"):
        read_header("array", stream, len(stream.getvalue()))
