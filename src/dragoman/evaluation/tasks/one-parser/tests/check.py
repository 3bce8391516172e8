import ast

from judge_kit import WORK, check, need, report, unittests


def definitions():
    found = []
    for path in sorted(WORK.glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "parse_duration":
                found.append(path.relative_to(WORK).as_posix())
    return found


@check("behaviour is unchanged")
def behaviour():
    unittests("public_tests")


@check("there is one definition, in a module of its own")
def one_definition():
    found = definitions()
    need(len(found) == 1, f"defined in {found}")
    need(found[0] not in ("timer.py", "alarm.py"), f"defined in {found[0]}")


@check("both use the same function")
def same():
    unittests("hidden_tests")


@check("no second copy under another name")
def no_copy():
    long = [path.name for path in WORK.glob("*.py") if path.read_text().count('unit == "weeks"')]
    need(len(long) <= 1, f"the body is in {long}")


report()
