import re

import pytest

from model.idempotent import scopes, variants
from proofs.export.tla import export_tla
from proofs.export.tla_expressions import ExportError
from proofs.export.tla_text import Level, Names, Term, changed, junction, negated
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from tests.proofs.export.toy import Configuration as ToyConfiguration
from tests.proofs.export.toy import toy_model

TINY = scopes.SCOPES["idempotent-tiny"].configuration(variants.parse("v2"))
STRICT = scopes.SCOPES["idempotent-tiny"].configuration(variants.parse("first_sequence=strict"))


def text_of(*patches, k=TINY):
    return export_tla(load_model("idempotent", patches), k, "text").text


def test_functions_keep_their_names_and_what_they_say_of_themselves():
    text = text_of()
    for rule in load_model("idempotent").rules.values():
        assert re.search(rf"^{rule.__name__}\(.*\) ==$", text, re.MULTILINE)
        assert f"\\* {rule.__doc__.splitlines()[0]}" in text


def test_each_configuration_that_is_asked_for_is_defined_at_the_top():
    names = r"(?:bounds|faults|budgets|variant)_\w+"
    asked = set(re.findall(rf"\b{names}", text_of()))
    defined = set(re.findall(rf"^({names}) == ", text_of(), re.MULTILINE))
    assert asked == defined
    assert {"bounds_max_sequence", "budgets_breaks", "variant_first_sequence"} <= asked


def test_the_same_scope_gives_the_same_text():
    assert text_of() == text_of()


def test_a_patch_changes_the_text_where_it_changes_the_model():
    patch = Patch("leader.in_sequence", "following == last + 1", "following > last")
    before, after = text_of().splitlines(), text_of(patch).splitlines()
    changed_lines = [(b, a) for b, a in zip(before, after, strict=True) if b != a]
    assert [(b.replace("= last + 1", "> last"), a) for b, a in changed_lines] == [
        (changed_lines[0][1], changed_lines[0][1])
    ]


def test_what_a_configuration_guarantees_is_checked_and_the_rest_is_listed():
    module, strict = (export_tla(load_model("idempotent"), k, "m") for k in (TINY, STRICT))
    assert module.checked == (
        *(
            "at_most_once",
            "acked_is_stored",
            "no_gap_behind_first",
            "bumps_have_causes",
            "acked_is_replicated",
        ),
        *("nothing_fails", "high_watermark_sound", "remembers_the_newest", "ids_come_first"),
        *("sequences_follow", "requests_are_awaited", "errors_wait_for_nothing"),
        *(
            "late_errors_are_stored",
            "sequences_have_ids",
            "last_acked_is_the_latest",
            "unknown_is_unresolved",
        ),
    )
    assert set(strict.checked) == {*module.checked, "no_gap", "order_kept"}
    assert "INVARIANTS\n    at_most_once\n    acked_is_stored\n" in module.cfg
    assert "\\*  no_gap\n" in module.cfg
    assert "\nno_gap == " in module.text


def test_guarantees_can_be_asked_for_by_name():
    module = export_tla(load_model("idempotent"), TINY, "m", check=["no_gap"])
    assert module.checked == ("no_gap",)
    assert "INVARIANTS\n    no_gap\n" in module.cfg
    assert "INVARIANTS" not in export_tla(load_model("idempotent"), TINY, "m", check=[]).cfg
    with pytest.raises(ValueError, match="'no_such_guarantee'; there are at_most_once,"):
        export_tla(load_model("idempotent"), TINY, "m", check=["no_such_guarantee"])


def test_files_are_named_as_tla_wants_it(tmp_path):
    path = export_tla(load_model("idempotent"), TINY, "idempotent-tiny").write(tmp_path / "new")
    assert path.name == "idempotent_tiny.tla"
    assert " MODULE idempotent_tiny " in path.read_text().splitlines()[0]
    assert path.with_suffix(".cfg").read_text().startswith("INIT Init\nNEXT Next\n")


def test_names_that_tla_has_already_are_spelled_otherwise():
    with toy_model() as model:
        text = export_tla(model, ToyConfiguration(), "toy").text
    assert "\nworld_Len(row) == Len(row)\n" in text
    assert "\nworld_world(row, card) ==\n" in text
    assert "LET event_ == " in text
    assert "\nall_of_it == both\n" in text


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("    return len(row)", "    return len(row) ** 2", "there are + - * %"),
        ("    return len(row)", "    return len(row) if len(row) else 0", "must be a bool"),
        ("    return len(row)", "    return 'a'", "only bools and ints are values"),
        ("    return len(row)", "    return Card", "name a value or call it"),
        ("    return len(row)", "    return length", "this name is not known"),
        ("    return len(row)", "    return row.count(1)", "no method 'count'"),
        ("    return len(row)", "    return row(1)", "a value cannot be called"),
        ("    return len(row)", "    return print(1)", "this cannot be called"),
        ("    return len(row)", "    return kept(k=0, row=row)", "by position"),
        ("    return len(row)", "    return len(row) < row[0].price", "no field 'price'"),
        ("    return len(row)", "    return len(row[1:2])", "a slice has one end"),
        ("    return len(row)", "    return len(row[:-1])", "write xs[: len(xs) - k]"),
        ("    return len(row)", "    return row[0][1]", "of a known type"),
        ("    return len(row)", "    return sum(x for x in len(row))", "run over a tuple"),
        ("    return len(row)", "    return sum(y for x in row for y in x)", "one generator"),
        ("    return len(row)", "    return max(1, 2, 3)", "two ints, or a comprehension"),
        ("    return len(row)", "    return row is row", "write == or in"),
        ("    return len(row)", "    return Card(number=1)", "each of the fields colour, number"),
        ("    return len(row)", "    a, b = 1, 2\n    return a", "one name at a time"),
        ("% layout.top", "% k.variant.name", "use an int, a bool or an enum"),
        ("% layout.top", "% __name__", "use an int, an enum or a record"),
        ("    return len(row)", "    pass", "write if, =, require or return"),
        ("    return len(row)", "    n = 1", "not every path returns"),
        ("words.map_values(k, kept,", "words.map_values(k, lambda k, row: row,", "a function"),
        ("words.map_values(k, kept,", "words.map_values(k, extended,", "requires nothing"),
        (
            "step = stepped(k, w)\n    card",
            "step = stepped(k, w) if True else w\n    card",
            "asked",
        ),
        ("return not any", "require(True)\n    return not any", "a guarantee demands nothing"),
        ("return spread(k, w) and", "return spread(k, w.seen) and", "with its world"),
    ],
)
def test_what_cannot_be_printed_is_refused_with_its_place(before, after, complaint):
    refusal = pytest.raises(ExportError, match=re.escape(complaint))
    with toy_model(before, after) as model, refusal as refused:
        export_tla(model, ToyConfiguration(), "toy")
    assert re.match(r"toy/\w+\.py:\d+:\d+: in \w+: ", str(refused.value))


def test_a_function_that_calls_itself_is_refused():
    refusal = pytest.raises(ExportError, match=r"world\.Len calls itself.*use fold")
    with toy_model("    return len(row)", "    return Len(row[1:])") as model, refusal:
        export_tla(model, ToyConfiguration(), "toy")


def test_parentheses_stand_where_tla_needs_them():
    a, b, c = (Term(name) for name in "abc")
    either = junction("\\/", [a, b])
    assert junction("/\\", [either, negated(c)]).text == "(a \\/ b) /\\ ~c"
    assert negated(either).text == "~(a \\/ b)"
    long = Term("x" * 80, Level.COMPARISON)
    assert junction("/\\", [either, long]).text == f"/\\ (a \\/ b)\n/\\ {long.text}"


def test_a_change_within_a_change_is_one_of_a_longer_place():
    inner = changed(Term("w.links"), [("[0]", Term("link"))])
    assert changed(Term("w"), [(".links", inner)]).text == "[w EXCEPT !.links[0] = link]"
    other = changed(Term("v.links"), [("[0]", Term("link"))])
    expected = "[w EXCEPT !.links = [v.links EXCEPT ![0] = link]]"
    assert changed(Term("w"), [(".links", other)]).text == expected


def test_no_two_globals_have_one_name():
    names = Names()
    assert names.claim("answer", "leader_answer") == "answer"
    assert names.claim("answer", "client_answer") == "client_answer"
    assert names.claim("answer", "client_answer") == "client_answer_"
    assert names.claim("Len") == "Len_"
    assert names.local("answer", {"answer_"}) == "answer__"
