"""`python -m bench` is `pyscheduler bench`."""

from pyscheduler.cli.bench import app

if __name__ == "__main__":
    app(prog_name="bench")
