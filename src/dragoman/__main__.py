"""`python -m dragoman` is the same program as `dragoman`."""

from dragoman.cli.main import program

if __name__ == "__main__":
    program()
