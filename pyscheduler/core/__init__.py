"""The pure core: events go in, commands come out; no I/O, no clock, no threads."""
