"""Protected operations of django-ninja."""
