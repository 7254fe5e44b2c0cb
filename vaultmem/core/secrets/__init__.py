"""Recognise credentials, so that none enters a memory: rules as data, and a scan that uses them."""
