"""Pure scheduling core: takes events, returns commands; no I/O, no clock, no threads."""
