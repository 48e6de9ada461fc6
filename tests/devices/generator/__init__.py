"""Random documents for the allocators. The seed of a document is its name: equal seeds give equal documents."""

from tests.devices.generator.document import FEATURES, Document, draw

__all__ = ["FEATURES", "Document", "draw"]
