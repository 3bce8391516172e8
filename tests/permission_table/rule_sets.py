"""Thirty sets of rules, each with the mode of the built-in agent and what the client does besides."""

from __future__ import annotations

from msgspec import Struct

from dragoman.policy import Rule


class RuleSet(Struct, frozen=True):
    """Rules as `ACTION SCOPE TEXT`; `mode` counts for the built-in agent, what follows for the client.

    `confines`: commands that the agent asks about come back to run in the sandbox. `folder` is that of the session.
    """

    rules: tuple[str, ...]
    mode: str = "ask"
    confines: bool = False
    allows_all: bool = False
    reads_reasons: bool = False
    folder: str = "{project}"

    def parsed(self) -> tuple[Rule, ...]:
        """Not through `parse_rule`: files of an earlier time may hold rules that are not accepted any more."""
        made = []
        for number, rule in enumerate(self.rules):
            action, scope, text = rule.split(" ", 2)
            made.append(Rule(action, text, scope, f"source {number}"))  # type: ignore[arg-type]  # written below
        return tuple(made)


SETS = (
    RuleSet(()),
    RuleSet((), "edit", reads_reasons=True),
    RuleSet((), "plan"),
    RuleSet((), "auto", confines=True),
    RuleSet((), "full", allows_all=True),
    RuleSet(("allow flag *",)),
    RuleSet(("allow flag execute:*", "deny pinned execute:git push *"), reads_reasons=True),
    RuleSet(("allow project execute",), "edit"),
    RuleSet(("allow project edit:src/**", "allow project read:**"), "ask"),
    RuleSet(("allow project edit", "deny project edit:src/**"), "edit", reads_reasons=True),
    RuleSet(("allow project safe",)),
    RuleSet(("allow project safe", "deny pinned read:secret/**"), "auto", confines=True),
    RuleSet(("allow project safe", "ask project execute:git *"), "ask"),
    RuleSet(("deny pinned read:secret/**",), "full"),
    RuleSet(("ask pinned read:**", "allow flag *"), "ask", reads_reasons=True),
    RuleSet(("deny pinned execute",), "auto", confines=True),
    RuleSet(("allow project execute:npm *", "allow project execute:git status", "allow session execute:make"), "edit"),
    RuleSet(("allow project execute:git *", "deny flag execute:git push *", "allow project edit:**"), "ask"),
    RuleSet(("ask session execute:rm *", "deny repository execute:sudo *", "allow flag execute:*"), "auto"),
    RuleSet(("allow repository *", "allow repository execute:npm test *"), "ask"),
    RuleSet(("allow project a@execute:make", "allow project claude@edit", "deny project gemini@execute"), "ask"),
    RuleSet(
        ("allow project mcp:files:read_*", "deny project mcp:files:write_file", "allow project fetch:*.org"), "plan"
    ),
    RuleSet(("allow project fetch:example.org", "ask flag fetch", "deny flag think"), "full", reads_reasons=True),
    RuleSet(("deny flag *",), "full", allows_all=True),
    RuleSet(("ask flag *", "allow flag *"), "auto", confines=True),
    RuleSet(("deny pinned edit:**/*.txt", "deny pinned read:{home}/.ssh/**", "allow flag *"), "edit"),
    RuleSet(("allow project execute:cat *", "allow project execute:echo *", "allow project edit:*.log"), "ask"),
    RuleSet(("allow project read", "allow project search", "allow project edit:/**"), "ask", folder="{link}"),
    RuleSet(("allow project execute:npm test *", "deny project edit:sub/**"), "auto", True, folder="{project}/sub"),
    RuleSet(
        ("allow flag execute:*", "deny pinned execute:rm *", "deny pinned edit:src/**", "ask project execute:git *"),
        "full",
        confines=True,
        allows_all=True,
    ),
)
