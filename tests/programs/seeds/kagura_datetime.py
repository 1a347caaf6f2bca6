from datetime import datetime

result = datetime.now().year >= 2025

# with policy: strict
# expect result: true
