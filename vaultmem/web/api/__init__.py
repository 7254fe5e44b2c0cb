"""The HTTP API, /api/v1: one table of operations, of which routes and OpenAPI document are made."""
