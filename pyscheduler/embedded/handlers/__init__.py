"""The HTTP face: reads requests, calls `Api`, writes answers. No rule about objects is decided here."""
