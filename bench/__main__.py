"""`python -m bench` is `pyscheduler bench`."""

from pyscheduler.cli.bench import bench

if __name__ == "__main__":
    bench(prog_name="bench")
