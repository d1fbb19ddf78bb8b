"""Only the module status exists here."""
