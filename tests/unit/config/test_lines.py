import tomllib

import pytest

from samples import paths
from tailrace.config.lines import locate

TEXTS = {
    "tables": "\n[a]\nx = 1\n\n[b.c]\ny = 2 # [not.a.table]\n",
    "a table after one inside it": "[a.b]\n\n[a]\nx = 1",
    "dotted keys": "a.b . c = 1\na.b.d = 2\n",
    "quoted keys": '"a b" = 1\n\'c.d\'."\\u00e9\\n" = 2\n["x]"]\n\'#\' = 3\n"" = 4',
    "inline tables": 'a = { b = { c = 1, "d}" = "}" }, e.f = 2 }\nempty = {}\n',
    "lists over lines": "a = [ # one ]\n  1,\n\n  [2, [],\n   3], # ]\n  { b = 4 },\n]\nc = 5",
    "tables in "
    "lists": '[[s]]\nk = "x"\n[s.t]\nu = 1\n[[s.v]]\n[[s.v]]\nw = 1\n\n[[s]]\n[s.t]\nu = 2\n',
    "long texts": 'a = """\nx = 1\n"" \\""" [b]"""\nc = """d"""""\ne = \'\'\'\n[f]\n\'\'\'\'\'\ng = 1',
    "short texts": 'a = ""\nb = "\\"#"\nc = \'\'\nd = \'"\\\'\ne = "\'"',
    "dates": "a = 2026-01-01 10:00:00\nb = [2026-01-01, 07:32:00]",
    "carriage returns": "[a]\r\nb = [\r\n1,\r\n2]\r\nc = 3",
    "other marks that break lines elsewhere": 'a = "\u2028\x85"\nb = 1',
    "nothing": "# only a note",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_path_has_a_line(text):
    assert set(locate(text)) == set(paths(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("tables", ("b",), 5),
        ("tables", ("b", "c", "y"), 6),
        ("a table after one inside it", ("a",), 3),
        ("a table after one inside it", ("a", "b"), 1),
        ("dotted keys", ("a", "b"), 1),
        ("dotted keys", ("a", "b", "d"), 2),
        ("quoted keys", ("c.d", "é\n"), 2),
        ("quoted keys", ("x]", "#"), 4),
        ("inline tables", ("a", "b", "d}"), 1),
        ("inline tables", ("empty",), 2),
        ("lists over lines", ("a", 1), 4),
        ("lists over lines", ("a", 1, 2), 5),
        ("lists over lines", ("a", 2, "b"), 6),
        ("lists over lines", ("c",), 8),
        ("tables in lists", ("s",), 1),
        ("tables in lists", ("s", 0, "t", "u"), 4),
        ("tables in lists", ("s", 0, "v", 1, "w"), 7),
        ("tables in lists", ("s", 1), 9),
        ("tables in lists", ("s", 1, "t"), 10),
        ("long texts", ("c",), 4),
        ("long texts", ("g",), 8),
        ("carriage returns", ("a", "b", 1), 4),
        ("carriage returns", ("a", "c"), 5),
        ("other marks that break lines elsewhere", ("b",), 2),
    ],
)
def test_the_line_is_where_the_key_stands(text, path, line):
    assert locate(TEXTS[text])[path] == line
