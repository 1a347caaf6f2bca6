"""pydantic-monty: its own Python in Rust, in a worker process, with its limits."""

from importlib.metadata import version

import common
import pydantic_monty


def run(session, code):
    printed = pydantic_monty.CollectString()
    lookups = {"lookup": common.lookup}
    try:
        value = session.feed_run(code, print_callback=printed, external_lookup=lookups, skip_type_check=True)
        return "ok", printed.output, None, value
    except pydantic_monty.MontyError as error:
        ended, text = common.kind(error)
        return ended, printed.output, text, None


limits = pydantic_monty.ResourceLimits(
    max_feed_duration_secs=common.TASK["timeout"],
    max_total_sleep_secs=common.TASK["timeout"],
    max_memory=common.TASK["asked"]["memory_mib"] << 20,
)
with pydantic_monty.Monty() as monty:
    sessions = {}
    for code, who in common.parts():
        if who not in sessions:
            sessions[who] = monty.checkout(limits=limits).__enter__()
        common.reply(f"pydantic-monty {version('pydantic-monty')}", lambda: run(sessions[who], code))
