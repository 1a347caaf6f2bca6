import sys

result = "still here"
if hasattr(sys, "monitoring"):
    tools = sys.monitoring
    for tool in range(6):
        if tools.get_tool(tool) is None:
            tools.use_tool_id(tool, "mine")
        tools.register_callback(tool, tools.events.PY_START, lambda *_: 1 / 0)
        tools.register_callback(tool, tools.events.CALL, lambda *_: 1 / 0)
        tools.set_events(tool, tools.events.PY_START)

# expect result: "still here"
