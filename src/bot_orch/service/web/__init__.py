"""HTTP without handlers: the ASGI application, endpoints, authorisation, limits, pages, OpenAPI."""
