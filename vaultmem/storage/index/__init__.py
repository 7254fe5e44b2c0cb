"""The search index: segments of arrays, and the codec with which Whoosh reads them."""
