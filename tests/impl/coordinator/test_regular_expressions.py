"""Expressions mean what RE2/J says of them: its answers, of release 1.8, are the table."""

from __future__ import annotations

import pytest

from impl.coordinator.regular_expressions import Expression, InvalidExpression

TEXTS = ("", "a", "b", "ab", "aab", "AB", "x-", "a.b", "1", "_", "{", "]", "a\n")


@pytest.mark.parametrize(
    ("expression", "taken"),
    [
        ("", ("",)),
        ("a|b", ("a", "b")),
        ("a*b", ("b", "ab", "aab")),
        ("a{2}b|a{,1}", ("aab",)),
        ("(a?){2,3}?b", ("b", "ab", "aab")),
        ("(?i)aB", ("ab", "AB")),
        ("(?i:A)b", ("ab",)),
        ("(?i)a(?-i)b", ("ab",)),
        ("(a|(?i)b)*", ("", "a", "b", "ab", "aab")),
        ("[^a-c[:digit:]]", ("_", "{", "]")),
        ("[]a-]", ("a", "]")),
        (r"\D\.\w|[\d_]", ("a.b", "1", "_")),
        (r"\Qa.\E(?P<rest>.*)$", ("a.b",)),
        (r"^\ba\b(?s).*", ("a", "a.b", "a\n")),
        (r"(?m)a$.", ()),
        (r"(?ms)a$.", ("a\n",)),
        (r"\A(?U)\x61\x{62}\z", ("ab",)),
        (r"(()*)*\101?\B-?", ("",)),
        ("{", ("{",)),
    ],
)
def test_what_an_expression_takes(expression: str, taken: tuple[str, ...]) -> None:
    compiled = Expression(expression)
    assert tuple(text for text in TEXTS if compiled.matches(text)) == taken


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("[b-a]", "invalid character class range"),
        ("[[:letter:]]", "invalid character class range"),
        ("*a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("{*", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{1," + "9" * 5000 + "}", "invalid repeat count"),
        ("a{2,1}", "invalid repeat count"),
        (r"(a)\1", "invalid escape sequence"),
        ("a\\", "trailing backslash at end of expression"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(" * 5000, "expression nests too deeply"),
        ("((((){1000}){1000}){1000}){1000}", "expression too large"),
    ],
)
def test_what_is_no_expression(expression: str, cause: str) -> None:
    with pytest.raises(InvalidExpression) as raised:
        Expression(expression)
    assert str(raised.value) == cause


def test_no_text_takes_for_ever() -> None:
    """Python's own expressions try 2^40 ways here."""
    assert not Expression("(x+)+y").matches("x" * 40)
    assert Expression("(x|xx|x*)*").matches("x" * 30_000)
