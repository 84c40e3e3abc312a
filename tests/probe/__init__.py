"""The probe: it finds what is wrong with planted views, and nothing with ours."""
