"""The imperative shell: sockets, the clock, logs and metrics around a core that has none of them."""
