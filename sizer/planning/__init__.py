"""Plans made of the measures: what fits where and takes how long, which sizes have a total, how totals change."""
