// Receipts of deterministic runs: looked at, and replayed on this server.

import { send } from './api.js';
import { button, bytes, download, el, field, table, text } from './dom.js';

class Receipts {
    constructor() {
        const file = el('input', { type: 'file', accept: '.json,application/json' });
        file.addEventListener('change', () => {
            const [chosen] = file.files;
            // Otherwise choosing the same file again, after it has changed, would be no change.
            file.value = '';
            if (chosen) this.read(chosen);
        });
        this.shown = el('div');
        this.element = el('div', {}, el('h2', {}, 'Receipts'),
            el('p', {}, 'A receipt records a deterministic run, so that anybody can repeat it. ', el('code', {}, 'belljar run --receipt'), ' writes one.'),
            field('Receipt', file, 'The file is read in this page. Only a replay sends its request to the server.'), this.shown);
    }

    async read(file) {
        // The buttons of an earlier receipt would stand below the name of this file.
        this.shown.replaceChildren();
        try {
            this.show(JSON.parse(await file.text()), file);
        } catch (error) {
            this.fail(`${file.name} is not a receipt: ${error.message}`);
        }
    }

    fail(message) {
        this.shown.replaceChildren(el('p', { class: 'bad', role: 'alert' }, text(message, 1000)));
    }

    show(receipt, file) {
        if (receipt?.receipt !== 1 || !receipt.request || !receipt.outcome?.parts) {
            this.fail(`${file.name} is not a receipt of version 1`);
            return;
        }
        const { request, image, outcome, signature } = receipt;
        const signed = signature ? `by ${signature.key} (${signature.algorithm}); this page does not verify it` : 'no';
        const facts = [['File', `${file.name}, ${bytes(file.size)}`], ['belljar', receipt.belljar], ['Image', image?.name], ['Image’s memory', image?.memory],
            ['Python module', image?.artifact], ['Outcome', outcome.sha256], ['Signed', signed],
            ['Seed', JSON.stringify(request.deterministic)], ['Files', Object.keys(request.files ?? {}).join(', ') || 'none']];
        const place = el('div', { role: 'status' });
        this.shown.replaceChildren(table('The receipt', ['What', 'Value'], facts), el('h3', {}, 'Code'), el('pre', { tabindex: '0' }, text(request.code, 65_536)),
            el('div', { class: 'buttons' },
                button('Replay here', () => this.replay(receipt, place).catch((error) => place.replaceChildren(el('p', { class: 'bad', role: 'alert' }, text(String(error), 2000)))), { class: 'main' }),
                button('Download', async () => download(file.name, await file.arrayBuffer()))), place);
    }

    /** Repeats the run on this server, and compares the hash of each part of the outcome. */
    async replay({ request, outcome: { parts } }, place) {
        if (!globalThis.crypto?.subtle) throw new Error('The browser computes hashes on https or localhost only');
        if (!request.deterministic) throw new Error('The run of the receipt is not deterministic');
        place.replaceChildren('Replaying…');
        const response = await send('POST', '/v1/runs', { json: request });
        const found = members(await response.text());
        found.delete('run');
        found.delete('id');
        const rows = [];
        for (const name of new Set([...Object.keys(parts), ...found.keys()])) {
            const hash = found.has(name) ? await sha256(found.get(name)) : undefined;
            rows.push([name, hash === parts[name] ? 'same' : 'differs', hash === parts[name] ? '' : found.get(name) ?? 'absent']);
        }
        const differing = rows.filter(([, state]) => state !== 'same').length;
        place.replaceChildren(el('p', { class: differing ? 'bad' : 'good' }, differing ? `The outcome differs in ${differing} parts` : 'The outcome is the same'),
            table('Parts of the outcome', ['Part', 'State', 'Here'], rows));
    }
}

async function sha256(content) {
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(content));
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The members of a JSON object with their values' texts as they are: parsing would change numbers. */
export function members(json) {
    const found = new Map();
    const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;
    let [depth, name, from] = [0, null, 0];
    for (let match = token.exec(json); match; match = token.exec(json)) {
        const [part] = match;
        if (part === '{' || part === '[') depth++;
        if (depth === 1 && part === ':' && name !== null) from = token.lastIndex;
        if (depth === 1 && part.startsWith('"') && !from) name = JSON.parse(part);
        if (depth === 1 && (part === ',' || part === '}') && from) {
            found.set(name, json.slice(from, match.index));
            [name, from] = [null, 0];
        }
        if (part === '}' || part === ']') depth--;
    }
    return found;
}

export function page() {
    return new Receipts();
}
