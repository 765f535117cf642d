"""HTML tables: values are escaped and never create tags."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdist._utils.text import MAX_CELL_CHARACTERS, escape_html, html_table, key_value_table

EXPECTED_TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class ParsedPage(HTMLParser):
    """Tags, attribute names, and texts of cells of a page."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.names, self.texts = set(), set(), []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        if tag in ("th", "td", "strong"):
            self.texts.append("")

    def handle_data(self, data):
        if self.texts:
            self.texts[-1] += data.rstrip("\n") if data.strip("\n") == "" else data


@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=4),
    st.text(max_size=20),
)
def test_text_does_not_create_tags(pairs, title):
    for page in (key_value_table(title, pairs), html_table(title, ("a", "b"), pairs)):
        assert ParsedPage(page).tags <= EXPECTED_TAGS
        assert ParsedPage(page).names <= {"style"}


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "'", "</td>"]
)
def test_html_in_values_is_escaped(text):
    assert ParsedPage(key_value_table(text, [(text, text)])).texts == [text] * 3
    assert ParsedPage(html_table(text, (text,), [(text,)])).texts == [text] * 3


def test_lone_surrogates_are_replaced():
    assert escape_html("a\ud800b").encode("utf-8") == b"a?b"


def test_long_texts_are_truncated():
    assert ParsedPage(key_value_table("", [("a", "<" * 1000)])).texts[1] == "<" * MAX_CELL_CHARACTERS + "..."


def test_empty_title_is_omitted():
    assert "<strong>" not in key_value_table("", [("a", 1)])
