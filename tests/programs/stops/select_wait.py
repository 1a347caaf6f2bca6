import select

print("started")
select.select([], [], [], 3600)
