"""Only the module schema exists here."""
