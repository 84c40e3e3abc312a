"""Who may decide, why somebody may not, and whom to tell. Nothing here decides or writes."""
