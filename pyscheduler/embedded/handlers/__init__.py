"""HTTP handlers: read requests, call `Api`, write responses. Rules about objects are not in here."""
