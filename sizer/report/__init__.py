"""An answer, and the forms it can be shown in."""
