"""Makes 60 modules of 300 lines that call an old function."""

from pathlib import Path

Path("jobs").mkdir()
Path("jobs/__init__.py").write_text("# Licence: example, see LICENCE\n")
for number in range(1, 61):
    lines = ["# Licence: example, see LICENCE", f'"""Job {number} of the nightly run."""', "", "from net import legacy", "", ""]
    for part in range(1, 25):
        lines += [
            f"def step_{part}(host, seconds=({part} + 1) * 2):",
            f'    """Fetch part {part} of job {number} from a host, and count its lines."""',
            f'    address = f"http://{{host}}/job-{number}/part-{part}"',
            f"    text = legacy.fetch(address, seconds)" if part % 2 else f"    text = legacy.fetch(address + '?v={part}', {part} * 3)",
            "    lines = text.splitlines()",
            "    kept = [line for line in lines if line.strip()]",
            f"    if len(kept) > {number * part}:",
            f'        return {{"job": {number}, "part": {part}, "count": len(kept), "is_large": True}}',
            f'    return {{"job": {number}, "part": {part}, "count": len(kept), "is_large": False}}',
            "",
            "",
        ]
    Path(f"jobs/job_{number:02}.py").write_text("\n".join([*lines[:296], f"STEPS = {24}", ""]))
