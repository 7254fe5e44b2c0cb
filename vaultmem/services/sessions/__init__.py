"""Sessions and tasks: start, edit, close, recover, restore and search them."""
