import sys

result = {"kept": [1, 2]}
print("before")
sys.path.clear()
sys.meta_path.clear()
sys.path_hooks.clear()
sys.modules.clear()

# expect success: true
# expect result: {"kept": [1, 2]}
# expect stdout: "before\n"
