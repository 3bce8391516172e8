import ast
import re

from judge_kit import WORK, check, need, program, report, text

MODULES = sorted((WORK / "planner").glob("*.py"))


@check("no module uses the old name")
def old_name_gone():
    left = []
    for path in MODULES:
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        names |= {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef | ast.alias)}
        left += [path.name] if "Job" in names else []
    need(not left, f"{left}")


@check("comments and docstrings have the new name")
def words():
    left = [path.name for path in MODULES if path.name != "records.py" and re.search(r"\bJob\b", path.read_text())]
    need(not left, f"{left}")
    need(re.search(r"\bWorkItem\b", text("planner/step_05.py").splitlines()[0]), "the docstring of step_05 is missing the name")


@check("look-alikes are unchanged")
def look_alikes():
    need("class JobQueue:" in text("planner/queue_of_jobs.py"), "JobQueue was renamed")
    need("class NightJob3(WorkItem)" in text("planner/step_03.py"), "NightJob3 was renamed")
    need("cost_of_joblessness" in text("planner/step_01.py"), "cost_of_joblessness was renamed")


PROGRAM = """
import json
from planner import WorkItem
from planner.queue_of_jobs import JobQueue
from planner.records import from_record, to_record
from planner.step_03 import make
queue = JobQueue()
queue.add(make())
queue.add(WorkItem("a"))
assert [job.cost for job in queue.jobs] == [1, 3]
assert json.loads(to_record(WorkItem("a"))) == {"type": "Job", "name": "a", "cost": 1}
assert type(from_record('{"type": "Job", "name": "b", "cost": 2}')) is WorkItem
"""


@check("it works, and the file format is the same")
def works():
    program(PROGRAM)


report()
