"""Mutations: rules broken one at a time, each of which turns a test red that it names."""
