"""The search index: segments of arrays, and the codec for Whoosh to read them."""
