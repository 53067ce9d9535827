"""`sizer check`: the totals that a repository expects of its models, and whether they still hold."""
