// What a state of a session holds: variables and files. Past states are looked at in a fork.

import { get, post, send } from './api.js';

/** Files and variables of one state that are looked at. */
const MAX_VARIABLES = 500;
/** Variables, as JSON: an expression, since those change nothing. Values that fail to show themselves are said to. */
const VARIABLES = `(lambda space: (exec('''
import json, types
def _shown(value):
    try:
        text = repr(value)
    except BaseException as error:
        text = f"<repr failed: {type(error).__name__}>"
    if not isinstance(text, str):
        text = ""
    import hashlib
    return [type(value).__name__, text[:300], hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]]
found = {}
for _name, _value in list(names.items()):
    if not _name.startswith("_") and not isinstance(_value, types.ModuleType) and len(found) < ${MAX_VARIABLES}:
        found[_name] = _shown(_value)
out = json.dumps(found)
''', space), space["out"])[1])({"names": dict(globals())})`;

/** The current variables of a session, `{name: [type, repr, hash]}`, and its files, `{path: entry}`. */
export async function current(id) {
    const at = `/v1/sessions/${encodeURIComponent(id)}`;
    const { entries } = await get(`${at}/files?depth=64`);
    const files = Object.fromEntries(entries.filter(({ kind }) => kind !== 'directory').map((entry) => [entry.path, entry]));
    const { values, errors } = await post(`${at}/evaluate`, { expressions: { all: VARIABLES } });
    if (errors.all) return { files, variables: {}, error: errors.all };
    // The guest may have changed what makes them.
    const variables = Object.entries(JSON.parse(values.all)).slice(0, MAX_VARIABLES);
    return { files, variables: Object.fromEntries(variables) };
}

/** The states after runs of sessions, `[{session, execution}]`. Forks are made for it, and closed again. */
export async function past(places) {
    const states = [];
    for (const { session, execution } of places) {
        const fork = await post(`/v1/sessions/${encodeURIComponent(session)}/fork`, {});
        try {
            await post(`/v1/sessions/${fork.id}/rewind`, { execution });
            states.push(await current(fork.id));
        } finally {
            await send('DELETE', `/v1/sessions/${fork.id}`).catch(() => {});
        }
    }
    return states;
}

/** Differences of two objects by key: `[[key, before, after]]`, in order. */
export function difference(before, after, same) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return keys.filter((key) => !(key in before && key in after && same(before[key], after[key])))
        .map((key) => [key, before[key], after[key]]);
}
