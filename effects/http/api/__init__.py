"""An API for agents and front ends: propose an effect, follow it, see what waits, vote, withdraw.

`path("effects/", include("effects.http.api.urls"))`, with REST framework. All rules are those of the public functions
that it calls; a proposal is never sent without somebody else's approval.
"""
