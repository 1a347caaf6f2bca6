// Requests to the server's own API. The key stays in this tab, and is sent in headers alone.

const STORED = 'belljar.key';
/** Path below which the server is: this file is in its directory `console`. */
export const base = new URL('..', import.meta.url).pathname.replace(/\/$/, '');

export const key = {
    get: () => sessionStorage.getItem(STORED) ?? '',
    set: (text) => (text ? sessionStorage.setItem(STORED, text) : sessionStorage.removeItem(STORED)),
};

/** Limits of the key, as the latest response told them. */
export const quota = new Map();

/** An error response. */
export class Problem extends Error {
    constructor(status, body) {
        super(body.detail || body.title || `status ${status}`);
        Object.assign(this, { status, code: body.code ?? '', hint: body.hint, reasons: body.reasons ?? [] });
    }

    toString() {
        const reasons = this.reasons.map((reason) => `${reason.field}: ${reason.message}`);
        return [this.message, ...reasons, this.hint].filter(Boolean).join('\n');
    }
}

export function encoded(path) {
    return path.split('/').map(encodeURIComponent).join('/');
}

/** Sends a request. Responses that are no success are thrown as `Problem`. */
export async function send(method, path, request = {}) {
    const response = await raw(method, path, request);
    if (response.ok) return response;
    if (response.status === 401) document.dispatchEvent(new Event('no-key'));
    let body = {};
    try {
        body = await response.json();
    } catch {
        // A proxy's page, for example.
    }
    throw new Problem(response.status, body);
}

/** The same without a look at the status. */
export async function raw(method, path, { json, body, headers = {}, signal } = {}) {
    const all = new Headers(headers);
    if (key.get()) all.set('Authorization', `Bearer ${key.get()}`);
    if (json !== undefined) all.set('Content-Type', 'application/json');
    const response = await fetch(base + path, {
        method,
        headers: all,
        body: json === undefined ? body : JSON.stringify(json),
        signal,
        credentials: 'omit',
        cache: 'no-store',
        referrerPolicy: 'no-referrer',
    });
    noteQuota(response.headers);
    return response;
}

export async function get(path, signal) {
    return (await send('GET', path, { signal })).json();
}

export async function post(path, json, signal) {
    return (await send('POST', path, { json, signal })).json();
}

// Structured fields such as `"runs";r=599;t=1` and `"runs";q=600;w=60`.
function noteQuota(headers) {
    for (const [header, keep] of [['ratelimit-policy', 'q'], ['ratelimit', 'r']]) {
        for (const item of (headers.get(header) ?? '').split(',')) {
            const [name, ...parameters] = item.trim().split(';');
            if (!name) continue;
            const title = name.replaceAll('"', '');
            const known = quota.get(title) ?? {};
            for (const parameter of parameters) {
                const [field, value] = parameter.split('=');
                if (field === keep || field === 't' || field === 'w' || field === 'qu') known[field] = value;
            }
            quota.set(title, known);
        }
    }
}

async function* pieces(response, end) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) break;
            const parts = (rest + value).split(end);
            rest = parts.pop();
            if (parts.length) yield parts;
        }
        if (rest.trim()) yield [rest];
    } finally {
        reader.cancel().catch(() => {});
    }
}

/** Server-sent events, in groups as they come. The kind is `event`, the content `data`. */
export async function* events(response) {
    for await (const group of pieces(response, '\n\n')) {
        const found = [];
        for (const block of group) {
            let [kind, data] = ['message', ''];
            for (const line of block.split('\n')) {
                if (line.startsWith('event:')) kind = line.slice(6).trim();
                else if (line.startsWith('data:')) data += line.slice(5).trimStart();
            }
            if (data) found.push({ kind, data });
        }
        if (found.length) yield found;
    }
}

/** Lines of JSON, in groups as they come, as texts. */
export async function* lines(response) {
    for await (const group of pieces(response, '\n')) {
        const found = group.filter((line) => line.trim());
        if (found.length) yield found;
    }
}
