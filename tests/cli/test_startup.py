"""Shortcuts for a quick start have no lasting effect."""

import subprocess
import sys


def test_msgspec_is_loaded_without_its_helper_and_the_helper_can_be_had_afterwards() -> None:
    program = (
        "import sys; from dragoman.cli.startup import load_msgspec; load_msgspec(); load_msgspec()\n"
        "assert 'msgspec' in sys.modules and 'typing_extensions' not in sys.modules\n"
        "import typing_extensions, msgspec\n"
        "assert msgspec.json.decode(b'[1]', type=list[int]) == [1]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_helper_that_is_loaded_already_is_left_alone() -> None:
    program = (
        "import sys, typing_extensions as before; from dragoman.cli.startup import load_msgspec; load_msgspec()\n"
        "assert sys.modules['typing_extensions'] is before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
