"""Small scripts in the words of a command that can be seen to run nothing and to open no file: of sed, awk and sqlite.

What is not understood here counts as code. A list of what is plain, not of what is dangerous.
"""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Longer scripts are not read: no line that a user would want to see is longer.
_LONG: Final = 2_000
_SED_ADDRESS: Final = re.compile(r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\+[0-9]+)")
_SED_FLAGS: Final = re.compile(r"[gpiIm0-9]*")
_SED_SIMPLE: Final = re.compile(r"[=dDgGhHlnNpPqQxF{}][0-9]*|[bt:T][ \t]*\w*")
_SED_TEXT: Final = re.compile(r"[aic]\\?[^\n]*")
# A set of letters without a slash in it. Whether a slash inside of brackets ends the expression differs.
_SET: Final = re.compile(r"\\.|\[\^?(?:\[:\w+:\]|[^\]\[\\])+\]")

_AWK_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t]+|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>[0-9]+(?:\.[0-9]+)?)
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*\(?)|(?P<end>[;{}\n])|(?P<value>[)\]]|\$)
    |(?P<operator>\+\+|--|&&|\|\||[<>=!+*%^-]=|!~|[-+*%^!~<>=?:,(\[])|(?P<slash>/)""",
    re.VERBOSE,
)
_AWK_REGEX: Final = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n]|\\.)*\])*/")
_AWK_UNCLEAR_SLASH: Final = re.compile(r"(?:\)|\+\+|--)\s*/")
_AWK_OPENING: Final = re.compile(r"system|getline|[|>@]")
_AWK_WORDS: Final = _words(
    """BEGIN END if( if else while( while for( for do in print printf next exit delete break continue return"""
)
_AWK_CALLS: Final = _words(
    """length( substr( index( split( sub( gsub( gensub( match( sprintf( tolower( toupper( int( sqrt( log( exp( sin(
    cos( atan2( rand( srand( strftime( systime( mktime( asort( asorti( patsplit( strtonum( and( or( xor( lshift(
    rshift( print( printf( exit( return("""
)

_SQL_START: Final = re.compile(
    r"\s*(?:select|insert|update|delete|create|drop|alter|pragma|explain|with|begin|commit)\b", re.I
)
_SQL_CALLS: Final = re.compile(
    r"(?:edit|readfile|writefile|lsdir|load_extension|fts3_tokenizer|system|attach|vacuum)\b", re.I
)
_SQLITE_DOTS: Final = re.compile(r"\.(?:tables|schema|databases|indexes|dbinfo|help|version|mode|headers)(?: [\w ]*)?")


def is_plain_sed(script: str) -> bool:
    """Whether a script of sed only prints, deletes and substitutes; `e` runs a command, `r` and `w` open files."""
    if len(script) > _LONG:
        return False
    place = 0
    while place < len(script):
        if script[place] in " \t\n;":
            place += 1
            continue
        place = _sed_command(script, _sed_addresses(script, place))
        if place < 0:
            return False
    return True


def _sed_addresses(script: str, place: int) -> int:
    """Return where the command after the addresses starts."""
    for _ in range(2):
        found = _SED_ADDRESS.match(script, place)
        if found is None or "[" in _SET.sub("", found[0]):
            break
        place = found.end()
        if script[place : place + 1] != ",":
            break
        place += 1
    while script[place : place + 1] in ("!", " "):
        place += 1
    return place


def _sed_command(script: str, place: int) -> int:
    """Return where a plain command ends, -1 if it is not plain."""
    letter = script[place : place + 1]
    if letter in ("s", "y"):
        mark = script[place + 1 : place + 2]
        if not mark or mark in "\n\\ ":
            return -1
        end = place + 1
        for _ in range(2):
            start = end = end + 1
            while end < len(script) and script[end] != mark:
                end += 2 if script[end] == "\\" else 1
            if end >= len(script) or "[" in _SET.sub("", script[start:end]):
                return -1
        flags = _SED_FLAGS.match(script, end + 1)
        return _sed_end(script, flags.end() if flags else -1)
    text = _SED_TEXT.match(script, place)
    if text is not None:
        # A text goes on after a backslash at the end of its line.
        return -1 if "\\" in text[0][2:] else text.end()
    simple = _SED_SIMPLE.match(script, place)
    if simple is None:
        return -1
    return simple.end() if letter in "{}" else _sed_end(script, simple.end())


def _sed_end(script: str, place: int) -> int:
    """Return the place if a command may end there, -1 otherwise: `s/a/b/w f` writes a file."""
    return place if re.compile(r"[ \t]*(?:[;\n}#]|$)").match(script, place) else -1


def is_plain_awk(program: str) -> bool:
    """Whether a program of awk only computes and prints to its output: no other programs, no files, no functions."""
    if len(program) > _LONG:
        return False
    # There a slash may divide or start a regular expression, and what follows may be read wrongly here.
    if _AWK_UNCLEAR_SLASH.search(program) and _AWK_OPENING.search(program):
        return False
    place = 0
    is_operand = True  # a slash starts a regular expression
    is_printing = False
    depth = 0  # in `print (a > b)` the sign compares
    while place < len(program):
        found = _AWK_TOKEN.match(program, place)
        if found is None:
            return False
        kind, text = found.lastgroup, found[0]
        place = found.end()
        if kind == "slash":
            regex = _AWK_REGEX.match(program, place - 1) if is_operand else None
            place = place if regex is None else regex.end()
            is_operand = regex is None
            continue
        if kind == "space":
            continue
        depth += text.endswith(("(", "[")) - (text in (")", "]"))
        if kind == "end":
            is_printing = False
            depth = 0
        elif kind == "name":
            is_call = text.endswith("(")
            if text in ("getline", "function", "func", "system", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB"):
                return False
            if is_call and text not in _AWK_CALLS and text not in _AWK_WORDS:
                return False
            is_printing = is_printing or text.rstrip("(") in ("print", "printf")
            is_operand = is_call or text in _AWK_WORDS
            continue
        elif text == ">" and is_printing and depth == 0:
            return False
        is_operand = kind in ("end", "operator")
    return True


def is_plain_sql(text: str) -> bool:
    """Whether a text for sqlite's shell neither runs a program nor opens another file."""
    if _SQLITE_DOTS.fullmatch(text.strip()):
        return True
    if "\n." in text or _SQL_CALLS.search(text):
        return False
    return all(_SQL_START.match(statement) for statement in text.split(";") if statement.strip())
