# aim = "time"
# tries = "Waits without a time."
import select

select.select([], [], [])
