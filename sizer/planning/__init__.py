"""What fits where: accelerators, what each rank of a layout holds, and the layouts that are cheapest."""
