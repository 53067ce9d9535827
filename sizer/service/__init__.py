"""The HTTP service and the MCP server: the commands, answered to other programs."""
