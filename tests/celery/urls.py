"""No URLs: a worker serves none."""

urlpatterns: list[object] = []
