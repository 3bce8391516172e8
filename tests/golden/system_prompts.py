"""The variants of the system prompt, for their golden files: `python -m tests.golden.system_prompts` rewrites them."""

from __future__ import annotations

import itertools
from pathlib import Path

from dragoman.builtin.context.system_prompt import system_prompt
from dragoman.builtin.skills.index import skill_index
from dragoman.builtin.skills.skill import Skill
from dragoman.policy.modes import MODES

FOLDER = Path(__file__).parent / "data" / "system_prompts"
MODELS = {
    "claude": "anthropic:claude-sonnet-5-5",
    "gpt": "openai:gpt-6.1-sol",
    "gemini": "google:gemini-3.8-flash",
    "other": "ollama:qwen3",
}
# The other modes have the text of the first.
MODES_WITH_TEXT = ("ask", "plan")
SKILLS = skill_index(
    (
        Skill("release-notes", "Writes release notes. Use it before a release.", "user", "/home/u/skills/SKILL.md"),
        Skill(
            "team-style", "The style of this project.", "project", "/work/project/.agents/skills/team-style/SKILL.md"
        ),
    )
)
INSTRUCTIONS = '<instructions path="/work/project/AGENTS.md">\nUse tabs.\n</instructions>'


def variants() -> dict[str, str]:
    """File name -> text, for each family, mode and kind of run."""
    return {
        f"{family}-{mode}{'-headless' if is_headless else ''}.md": prompt(family, mode, is_headless=is_headless) + "\n"
        for family, mode, is_headless in itertools.product(MODELS, MODES_WITH_TEXT, (False, True))
    }


def prompt(family: str, mode: str = "ask", *, is_headless: bool = False) -> str:
    roots = ("/work/project", "/work/library")
    return system_prompt(
        "/work/project",
        roots,
        MODES[mode],
        INSTRUCTIONS,
        model=MODELS[family],
        is_headless=is_headless,
        skills=SKILLS,
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, text in variants().items():
        (FOLDER / name).write_text(text)
