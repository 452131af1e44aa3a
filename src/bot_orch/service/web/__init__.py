"""HTTP: the application, endpoints, authentication, limits, pages."""
