// The API's operations, from its OpenAPI document, each with a form to try it.

import { encoded, get, raw } from './api.js';
import { button, bytes, download, duration, el, field, options, table, text } from './dom.js';

/** Bytes of a response that are shown. */
const MAX_SHOWN = 65_536;
const MAX_DEPTH = 4;

class Reference {
    constructor() {
        this.filter = el('input', { type: 'search', placeholder: 'sessions fork', oninput: () => this.draw() });
        this.list = el('div', { class: 'operations' });
        this.element = el('div', {}, el('h2', {}, 'API'), field('Filter', this.filter), this.list);
    }

    async open() {
        if (this.document) return;
        this.document = await get('/v1/openapi.json');
        this.operations = Object.entries(this.document.paths).flatMap(([path, methods]) =>
            Object.entries(methods).map(([method, about]) => this.operation(method.toUpperCase(), path, about)));
        this.draw();
    }

    draw() {
        const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        const found = this.operations.filter(({ words: all }) => words.every((word) => all.includes(word)));
        this.list.replaceChildren(...found.map(({ element }) => element));
    }

    operation(method, path, about) {
        const form = el('div');
        const title = el('summary', {}, el('b', { class: `method ${method.toLowerCase()}` }, method), ' ', el('code', {}, path), ' ', about.summary ?? '');
        const element = el('details', { class: 'operation' }, title, form);
        element.addEventListener('toggle', () => {
            if (element.open && !form.childElementCount) form.append(...this.form(method, path, about));
        });
        return { element, words: `${method} ${path} ${about.description}`.toLowerCase() };
    }

    form(method, path, about) {
        const inputs = new Map();
        const fields = (about.parameters ?? []).map((parameter) => {
            const values = this.resolve(parameter.schema)?.enum;
            const input = values ? el('select', {}, options(parameter.required ? values : ['', ...values])) : el('input', { type: 'text', required: parameter.required });
            inputs.set(parameter, input);
            return field(`${parameter.name} (${parameter.in})`, input, parameter.description);
        });
        const contents = Object.entries(about.requestBody?.content ?? {});
        const [media, content] = contents[0] ?? [];
        let body;
        if (media === 'application/octet-stream') body = el('input', { type: 'file' });
        else if (media) body = el('textarea', { rows: 8, class: 'code', spellcheck: 'false', value: this.example(content?.schema) });
        const accepts = Object.keys(about.responses?.['200']?.content ?? {});
        const accept = accepts.length > 1 ? el('select', {}, options(accepts)) : null;
        const answers = Object.entries(about.responses ?? {}).map(([status, { description, content: types }]) => [status, description, Object.keys(types ?? {}).join(', ')]);
        const place = el('div', { role: 'status' });
        const isSocket = '101' in (about.responses ?? {});
        const send = async () => {
            const address = this.address(path, inputs);
            const headers = {};
            if (accept) headers.Accept = accept.value;
            if (media) headers['Content-Type'] = media;
            const sent = body?.type === 'file' ? body.files[0] : body?.value || undefined;
            place.replaceChildren('Waiting…');
            try {
                await this.answer(await raw(method, address, { headers, body: sent }), address, place, performance.now());
            } catch (error) {
                place.replaceChildren(el('p', { class: 'bad', role: 'alert' }, text(String(error), 1000)));
            }
        };
        const form = el('form', { class: 'try' }, fields, body ? field(`Body (${media})`, body) : null, accept ? field('Answer', accept) : null,
            isSocket ? el('p', { class: 'note' }, 'A WebSocket: the prompt of a session uses it.') : el('button', { class: 'main' }, `Try ${method}`));
        form.addEventListener('submit', (event) => {
            event.preventDefault();
            send();
        });
        const schema = content?.schema ? el('details', {}, el('summary', {}, 'Schema of the body'), el('pre', { tabindex: '0' }, JSON.stringify(this.expand(content.schema, 2), null, 1))) : null;
        return [el('p', {}, about.description), table('Answers', ['Status', 'Meaning', 'Type'], answers), schema ?? '', form, place];
    }

    address(path, inputs) {
        const query = new URLSearchParams();
        let address = path;
        for (const [{ name, in: where }, input] of inputs) {
            if (where === 'path') address = address.replace(`{${name}}`, name === 'path' ? encoded(input.value) : encodeURIComponent(input.value));
            else if (input.value) query.set(name, input.value);
        }
        return query.size ? `${address}?${query}` : address;
    }

    async answer(response, address, place, started) {
        const content = await response.arrayBuffer();
        const headers = [...response.headers].map(([name, value]) => [name, value]);
        const type = response.headers.get('content-type') ?? '';
        let shown = new TextDecoder().decode(content.slice(0, MAX_SHOWN));
        if (type.includes('json') && !type.includes('ndjson') && content.byteLength <= MAX_SHOWN) {
            try {
                shown = JSON.stringify(JSON.parse(shown), null, 1);
            } catch {
                // It is shown as it is.
            }
        }
        place.replaceChildren(el('p', { class: response.ok ? 'good' : 'bad' }, `${response.status} ${text(address, 300)}, ${bytes(content.byteLength)} in ${duration(performance.now() - started)}`),
            el('details', {}, el('summary', {}, 'Headers'), table('Headers of the answer', ['Name', 'Value'], headers)),
            el('pre', { tabindex: '0', class: 'answer' }, text(shown, MAX_SHOWN)), button('Download', () => download('answer', content)));
    }

    resolve(schema) {
        const target = schema?.$ref?.replace('#/components/schemas/', '');
        return target ? this.document.components.schemas[target] : schema;
    }

    /** A schema with the types that it refers to in their places. */
    expand(schema, depth) {
        if (depth < 0 || schema === null || typeof schema !== 'object') return schema;
        if (Array.isArray(schema)) return schema.map((part) => this.expand(part, depth));
        const known = schema.$ref ? this.expand(this.resolve(schema), depth - 1) : schema;
        return Object.fromEntries(Object.entries(known ?? {}).map(([name, part]) => [name, this.expand(part, depth)]));
    }

    /** A body to begin with: the required fields. */
    example(schema, depth = 0) {
        const value = this.value(schema, depth);
        return value === undefined ? '' : JSON.stringify(value, null, 1);
    }

    value(schema, depth) {
        const known = this.resolve(schema) ?? {};
        if (depth > MAX_DEPTH) return null;
        if (known.default !== undefined && known.default !== null) return known.default;
        if (known.enum) return known.enum[0];
        const [one] = known.anyOf ?? known.oneOf ?? [];
        if (one) return this.value(one, depth + 1);
        switch ([known.type].flat()[0]) {
            case 'object': {
                const fields = Object.entries(known.properties ?? {}).filter(([name]) => (known.required ?? []).includes(name));
                return Object.fromEntries(fields.map(([name, part]) => [name, name === 'code' ? 'print(1)' : this.value(part, depth + 1)]));
            }
            case 'array': return [];
            case 'string': return '';
            case 'integer':
            case 'number': return known.minimum ?? 0;
            case 'boolean': return false;
            default: return known.properties ? {} : null;
        }
    }
}

export function page() {
    return new Reference();
}
