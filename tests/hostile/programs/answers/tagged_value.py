# aim = "truth"
# tries = "Leaves a result that looks like the host's own tagged values."
# control = "the control's answer has no tagged values"
result = {"$": "error", "value": {"usage": "@MARK@"}, "success": True}
