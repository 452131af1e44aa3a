"""Several processes that share the routers of a service: who serves which, and requests passed on to the right one."""
