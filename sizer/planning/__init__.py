"""Plans made of the measures: what sizes have a total, and how totals change with sizes."""
