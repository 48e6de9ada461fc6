"""Random documents for the allocators. The seed of a document is its name: equal seeds give equal documents."""

from tests.devices.generator.base import Document
from tests.devices.generator.document import FEATURES, draw

__all__ = ["FEATURES", "Document", "draw"]
