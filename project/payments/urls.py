"""Addresses of the shop's API."""

from django.urls import path

from . import views

urlpatterns = [
    path("orders/", views.OrdersView.as_view(), name="orders"),
    path("orders/<int:order_id>/", views.OrderView.as_view(), name="order"),
    path("orders/<int:order_id>/pay/", views.PayView.as_view(), name="pay"),
    path("orders/<int:order_id>/refunds/", views.RefundsView.as_view(), name="refunds"),
    path("payouts/", views.PayoutsView.as_view(), name="payouts"),
]
