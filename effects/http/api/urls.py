"""URLs of the API: `path("effects/", include("effects.http.api.urls"))`."""

from __future__ import annotations

from django.urls import path

from effects.http.api import views

app_name = "effects_api"
urlpatterns = [
    path("proposals/", views.ProposalsView.as_view(), name="proposals"),
    path("proposals/<str:ref>/", views.ProposalView.as_view(), name="proposal"),
    path("proposals/<str:ref>/withdraw/", views.WithdrawView.as_view(), name="withdraw"),
    path("approvals/", views.ApprovalsView.as_view(), name="approvals"),
    path("approvals/<str:approval_id>/vote/", views.VoteView.as_view(), name="vote"),
]
