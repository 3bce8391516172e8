"""Makes a package of 27 modules that use the class Job in different ways."""

from pathlib import Path

package = Path("planner")
package.mkdir()
(package / "__init__.py").write_text('"""Plans work."""\n\nfrom planner.job import Job\n\n__all__ = ["Job"]\n')
(package / "job.py").write_text(
    '"""The class Job."""\n\n\nclass Job:\n    """One Job to be done."""\n\n    def __init__(self, name, cost=1):\n'
    "        self.name = name\n        self.cost = cost\n\n    def __repr__(self):\n"
    '        return f"<{type(self).__name__} {self.name}>"\n'
)
(package / "queue_of_jobs.py").write_text(
    '"""JobQueue: a queue of Job objects."""\n\nfrom planner.job import Job\n\n\nclass JobQueue:\n    """Jobs in the order of '
    'their cost. Not a Job itself."""\n\n    def __init__(self):\n        self.jobs = []\n\n    def add(self, job):\n'
    "        if not isinstance(job, Job):\n            raise TypeError('only a Job can be added')\n        self.jobs.append(job)\n"
    "        self.jobs.sort(key=lambda job: job.cost)\n"
)
(package / "records.py").write_text(
    '"""Writes a Job as a record. The type in a record is part of the file format."""\n\nimport json\n\n'
    'from planner.job import Job\n\nTYPE = "Job"\n\n\ndef to_record(job: Job) -> str:\n'
    '    return json.dumps({"type": TYPE, "name": job.name, "cost": job.cost})\n\n\ndef from_record(text: str) -> Job:\n'
    '    found = json.loads(text)\n    if found["type"] != "Job":\n        raise ValueError("this is not a record of type Job")\n'
    '    return Job(found["name"], found["cost"])\n'
)
for number in range(1, 24):
    name = f"NightJob{number}" if number % 3 == 0 else f"Step{number}"
    (package / f"step_{number:02}.py").write_text(
        f'"""{name} is a Job."""\n\nfrom planner.job import Job\n\n\nclass {name}(Job):\n'
        f'    """A Job of its own; see Job, not JobQueue."""\n\n    cost_of_joblessness = {number}\n\n\n'
        f"def make() -> Job:\n    # A new Job each time.\n    return {name}({name.lower()!r}, cost={number})\n"
    )
