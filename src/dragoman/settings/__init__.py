"""The user's and the project's settings: where their files are, what they may contain, and what applies.

It reads `settings.json` of the user and of the project, the permission rules in `rules.json` and the acceptances in
`accepted.json` (which commands of a project the user accepted), and keeps keys of model providers in
`credentials.json`. A project's settings are a proposal: they can restrict, but they cannot allow anything or start
anything that the user has not accepted.
It does not know which agents exist, what a rule means, or how a server is started. Read `effective.py` first.
"""

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from dragoman.settings.effective import EffectiveSettings, load_settings
    from dragoman.settings.file import RuleTexts, SettingsFile, read_settings_file
    from dragoman.settings.project import find_project
    from dragoman.settings.rule_file import RuleFile

__all__ = [
    "EffectiveSettings",
    "RuleFile",
    "RuleTexts",
    "SettingsFile",
    "find_project",
    "load_settings",
    "read_settings_file",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".effective": ("EffectiveSettings", "load_settings"),
            ".file": ("RuleTexts", "SettingsFile", "read_settings_file"),
            ".project": ("find_project",),
            ".rule_file": ("RuleFile",),
        },
    )
