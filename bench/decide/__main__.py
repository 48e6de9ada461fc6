"""`python -m bench.decide` is `pyscheduler bench decide`."""

from bench.decide.command import main

if __name__ == "__main__":
    main(prog_name="bench decide")
