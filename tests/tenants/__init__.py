"""A multi-tenant project with a schema for each tenant, under django-tenants."""
