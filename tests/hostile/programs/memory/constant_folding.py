# aim = "memory"
# tries = "Has the compiler compute a constant of a gigabyte."
# control = "CPython refuses to fold constants of more than 4 KiB; it is computed when it runs"
exec(compile("x = 'a' * 100 * 100 * 100 * 100 * 100", "<s>", "exec"))
