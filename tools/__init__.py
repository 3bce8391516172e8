"""Programs that work on the project; none is part of the installed package."""
