import re

from judge_kit import START, WORK, check, need, program, report

MODULES = sorted((START / "jobs").glob("job_*.py"))


@check("all 60 modules are migrated")
def migrated():
    right = 0
    for path in MODULES:
        found = (WORK / "jobs" / path.name).read_text()
        calls = re.findall(r"\bclient\.get\(.+, timeout=.+\)$", found, re.MULTILINE)
        right += len(calls) == path.read_text().count("legacy.fetch(") and "legacy" not in found
    return right / len(MODULES)


@check("the licence line is first in every file")
def licence():
    lost = [path.name for path in (WORK / "jobs").glob("*.py") if not path.read_text().startswith("# Licence: example, see LICENCE\n")]
    need(not lost, f"{len(lost)} files lost it")


PROGRAM = """
import importlib
for number in range(1, 61, 7):  # every module would take seconds to compile
    module = importlib.import_module(f"jobs.job_{number:02}")
    assert module.step_1("h") == {"job": number, "part": 1, "count": 2, "is_large": number < 2}, number
    assert module.step_2("h")["count"] == 2
"""


@check("they work as before")
def works():
    program(PROGRAM)


@check("the old module is gone")
def gone():
    need(not (WORK / "net/legacy.py").exists(), "net/legacy.py is still there")


report()
