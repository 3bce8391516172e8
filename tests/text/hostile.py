"""Text that acts on a terminal if it gets there unchanged, and a pattern that finds what does."""

import re

ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)

CORPUS = {
    "colour": "\x1b[31mred\x1b[0m",
    "clipboard": "\x1b]52;c;ZWNobyBwd25lZA==\x07done",
    "hyperlink": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "title": "\x1b]0;pwned\x07x",
    "title by ST": "\x1b]2;pwned\x9cx",
    "unterminated OSC": "before\x1b]0;never ends",
    "cursor report": "\x1b[6n",
    "clear screen": "\x1b[2J\x1b[H",
    "private mode": "\x1b[?1049h",
    "device control": "\x1bP+q544e\x1b\\x",
    "application": "\x1b_Gf=100;AAAA\x1b\\x",
    "privacy": "\x1b^secret\x1b\\x",
    "start of string": "\x1bXsecret\x1b\\x",
    "8-bit CSI": "\x9b31mred",
    "8-bit OSC": "\x9d0;pwned\x07x",
    "charset": "\x1b(0lqk",
    "reset": "\x1bc",
    "backspaces": "allow\b\b\b\b\bdeny",
    "carriage return": "harmless\rrm -rf /",
    "bell": "\a\a",
    "bidi": "user\u202etxt.exe",
    "isolate": "\u2066abc\u2069",
    "tags": "a\U000e0041\U000e0042b",
    "lone surrogate": "\ud800x",
    "escape at the end": "x\x1b",
    "nested": "\x1b\x1b[31m\x1b]0;\x1b[2Jx\x07",
    "line separator": "a\u2028b",
}

EVERYTHING = " | ".join(text for name, text in CORPUS.items() if name not in ("lone surrogate", "unterminated OSC"))
"""All of it in one text."""
