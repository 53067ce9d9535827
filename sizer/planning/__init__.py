"""Plans made of the measures: what fits where and for how long, which sizes have a total."""
