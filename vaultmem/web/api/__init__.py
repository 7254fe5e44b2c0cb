"""The HTTP API: routes and the OpenAPI document of the operations."""
