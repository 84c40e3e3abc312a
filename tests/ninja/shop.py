"""A shop under django-ninja: an API, and a router that is mounted twice."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from ninja import Header, NinjaAPI, Router, Schema, Status
from ninja.errors import HttpError
from ninja.security import HttpBearer

import effects


class Bearer(HttpBearer):
    """Somebody who is known by a token."""

    def authenticate(self, request: HttpRequest, token: str) -> str | None:
        """Return whose token it is."""
        return token if token in ("ann", "ben") else None


api, router = NinjaAPI(urls_namespace="shop", auth=Bearer()), Router()
ran: list[Any] = []


def caller(request: HttpRequest) -> str:
    """Whoever the token belongs to."""
    return str(request.auth)  # type: ignore[attr-defined]


class Order(Schema):
    """What is ordered."""

    name: str
    count: int = 1


class Made(Schema):
    """What was made."""

    id: int
    name: str


@effects.register
class Charge(effects.Effect[dict[str, Any]]):
    """A call to a provider."""

    operation = "ninja.charge"
    provider = "cards/ninja"

    def send(self, context: Any, permit: Any) -> Any:
        """Charge."""
        return effects.Applied({"id": permit.provider_key}, permit.provider_key)


def charged(outcome: effects.Outcome) -> HttpResponse:
    """The answer, whenever it is given."""
    return JsonResponse({"id": outcome.require()["id"]}, status=201)


@api.post("/orders", response={201: Made})
@effects.idempotent("ninja.order", mode="transactional", identity=caller)
def order(request: HttpRequest, payload: Order) -> Any:
    """Write a row, in the decorator's transaction."""
    ran.append(connection.in_atomic_block)
    if not payload.name:
        raise HttpError(409, "no name")
    made = Group.objects.create(name=payload.name)
    if payload.count == 4:
        raise HttpError(418, "too many")
    if payload.count == 5:
        raise Http404
    if payload.count == 6:
        raise RuntimeError("a bug")
    return Status(201, {"id": made.pk, "name": made.name})


@api.get("/orders", auth=None)
def orders(request: HttpRequest) -> Any:
    """List rows, at the address of a protected operation."""
    return {"atomic": connection.in_atomic_block, "count": Group.objects.count()}


@api.post("/charges")
@effects.idempotent("ninja.charge_it", mode="journaled", performs=[Charge], answer=charged, identity=caller)
def charge(request: HttpRequest, payload: Order, response: HttpResponse) -> Any:
    """Call a provider, outside of any transaction."""
    ran.append(connection.in_atomic_block)
    return charged(effects.perform(Charge, payload=payload.dict()))


@api.put("/settings/{name}", response=Made)
@effects.idempotent("ninja.setting", mode="transactional", identity=caller, required=False)
def setting(request: HttpRequest, name: str, payload: Order, response: HttpResponse, x_kind: str = Header("")) -> Any:
    """Answer with a header of its own; a key is optional."""
    ran.append(name)
    response["ETag"] = f'"{x_kind}"'
    return Made(id=7, name=name)


@router.delete("/things/{int:number}", response={204: None})
@effects.idempotent("ninja.remove", mode="transactional", identity=caller)
def remove(request: HttpRequest, number: int) -> Any:
    """Answer with nothing."""
    ran.append(number)
    return Status(204, None)


@router.post("/whoever")
@effects.idempotent("ninja.whoever", mode="journaled")
def whoever(request: HttpRequest) -> Any:
    """Take the caller from the session alone."""
    return {"ran": len(ran)}


api.add_router("/one", router, url_name_prefix="one")
api.add_router("/two", router, url_name_prefix="two")
urlpatterns = [path("api/", api.urls), path("operations/", include("effects.urls"))]
