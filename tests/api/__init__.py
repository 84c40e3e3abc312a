"""The API for agents and front ends."""
