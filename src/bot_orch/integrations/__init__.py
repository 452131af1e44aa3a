"""Adapters: the router inside other frameworks, and a client of the service. One file each, imported when used."""
