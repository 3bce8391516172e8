import json

from judge_kit import TESTS, check, program, report

CASES = json.loads((TESTS / "cases.json").read_text())


PROGRAM = """
import json, os
sys.path.insert(0, os.getcwd())
from template import TemplateError, render
right = 0
for template, values, expected in json.load(open(sys.argv[1])):
    try:
        found = render(template, values)
    except TemplateError:
        found = None
    except Exception:
        found = Ellipsis
    right += found == expected and type(found) is type(expected)
print(right)
"""
NAMED = """
import template
assert issubclass(template.TemplateError, ValueError)
try:
    template.render("{{ a | shout }}", {"a": "b"})
except template.TemplateError as error:
    assert "shout" in str(error), error
else:
    raise AssertionError("an unknown filter is accepted")
"""


@check("40 cases of the specification")
def cases():
    return int(program(PROGRAM, str(TESTS / "cases.json")).split()[-1]) / len(CASES)


@check("a TemplateError is a ValueError and names an unknown filter")
def errors():
    program("import os; sys.path.insert(0, os.getcwd())\n" + NAMED)


report()
