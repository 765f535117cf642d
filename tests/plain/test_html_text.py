"""Tables in HTML: what stands in them is what was given, whatever it is, and no tag comes of it."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdist._utils.text import MAX_CELL_CHARACTERS, escape_html, html_table, key_value_table

OWN = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class Seen(HTMLParser):
    """Tags, their attributes, and texts by tag."""

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
def test_any_text_is_shown_and_makes_no_tag(pairs, title):
    for page in (key_value_table(title, pairs), html_table(title, ("a", "b"), pairs)):
        assert Seen(page).tags <= OWN
        assert Seen(page).names <= {"style"}


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "'", "</td>"]
)
def test_hostile_text_is_read_as_text(hostile):
    assert Seen(key_value_table(hostile, [(hostile, hostile)])).texts == [hostile] * 3
    assert Seen(html_table(hostile, (hostile,), [(hostile,)])).texts == [hostile] * 3


def test_halves_of_characters_can_be_written():
    assert escape_html("a\ud800b").encode("utf-8") == b"a?b"


def test_long_texts_are_cut():
    assert Seen(key_value_table("", [("a", "<" * 1000)])).texts[1] == "<" * MAX_CELL_CHARACTERS + "..."


def test_no_title_is_no_title():
    assert "<strong>" not in key_value_table("", [("a", 1)])
