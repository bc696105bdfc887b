"""Files of properties: what Java 17 reads of the same lines."""

import pytest

from impl.properties import InvalidProperty, decode_properties, encode_properties

READ_BY_JAVA = [
    ("# a comment \\\n! another\nplain=1", {"plain": "1"}),
    ("  spaced  =  two words", {"spaced": "two words"}),
    ("colon: x=y\nwith space", {"colon": "x=y", "with": "space"}),
    (r"escaped\:name\ here=a\=b\\c", {"escaped:name here": r"a=b\c"}),
    ("joined=one \\\n   two\\\n# three", {"joined": "one two# three"}),
    ("even=ends\\\\\nnext=5\r\n\r\nempty=", {"even": "ends\\", "next": "5", "empty": ""}),
    (r"unicode=\u00e9\n\tx", {"unicode": "é\n\tx"}),
    ("again=1\nagain=2", {"again": "2"}),
]


@pytest.mark.parametrize(("text", "properties"), READ_BY_JAVA)
def test_properties_are_those_that_java_reads(text, properties):
    assert decode_properties(text.encode()) == properties


def test_properties_that_were_written_are_read():
    written = {"cluster.id": "abc", "node.id": "1", "version": "1"}
    assert decode_properties(encode_properties(written)) == written


@pytest.mark.parametrize("data", [b"alone", b"= nameless", b"\xff=1"])
def test_what_is_no_property_is_named(data):
    with pytest.raises(InvalidProperty, match="propert"):
        decode_properties(b"fine=1\n" + data)
