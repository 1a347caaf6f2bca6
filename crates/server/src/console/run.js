// The prompt: code in a fresh sandbox or in a session.

import { events, get, send } from './api.js';
import { Output, fileOfRun, fileOfSession } from './output.js';
import { button, el, field, options, say, text } from './dom.js';

/** Runs that stay on the page. */
const MAX_RUNS = 20;
/** Seconds of a run whose calls are answered here, unless others are asked for. */
const ANSWERED = 300;
const CAPTURE = { table_rows: 50, file_hashes: true, media_types: true };

const number = (value) => (value === '' ? undefined : Number(value));

/** An editor, and below it the runs of its code. */
export class Prompt {
    /** @param session the id of a session; a fresh sandbox without one */
    constructor({ session, after } = {}) {
        Object.assign(this, { session, after, past: [], at: 0, running: null });
        this.editor = el('textarea', {
            rows: 8, spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', 'aria-label': 'Python code',
            placeholder: 'Python code. Ctrl+Enter runs it.', class: 'code', onkeydown: (event) => this.key(event),
        });
        this.go = button('Run', () => this.start(), { class: 'main' });
        this.halt = button('Stop', () => this.stop(), { disabled: true });
        this.runs = el('div', { class: 'runs' });
        this.outputs = [];
        this.element = el('div', { class: 'prompt' }, this.editor,
            el('div', { class: 'buttons' }, this.go, this.halt, button('Clear', () => this.clear(), { class: 'quiet' })),
            this.settings(), this.runs);
    }

    settings() {
        const whole = (name, min, hint, value) => {
            this[name] = el('input', { type: 'number', min, step: 'any', value: value ?? '', placeholder: hint });
            return this[name];
        };
        const area = (name) => {
            this[name] = el('textarea', { rows: 2, spellcheck: 'false', class: 'code' });
            return this[name];
        };
        const fields = [
            field('Time, seconds', whole('timeout', 0, '5')),
            field('Fuel', whole('fuel', 0, 'as the time allows')),
            field('Standard input', area('stdin'), 'Without it, input() asks here.'),
            field('Tools', area('tools'), 'A list in JSON, such as [{"name": "price"}]. You answer their calls here.'),
        ];
        if (!this.session) {
            this.image = el('select', {}, options(['auto'], 'auto'));
            this.policy = el('select', {}, options(['open', 'strict'], 'open'));
            this.upload = el('input', { type: 'file', multiple: true });
            fields.push(field('Memory, MiB', whole('memory', 1, '256')), field('Image', this.image), field('Policy', this.policy),
                field('Seed', whole('seed', 0, 'not deterministic'), 'Makes the run deterministic.'),
                field('Files', this.upload, 'For the workspace.'));
        }
        return el('details', { class: 'settings' }, el('summary', {}, 'Limits and inputs'), el('div', { class: 'fields' }, fields));
    }

    async images() {
        const { images } = await get('/v1/images');
        const known = this.image.value;
        this.image.replaceChildren(...options(['auto', ...images.map(({ name }) => name)], known));
    }

    key(event) {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            this.start();
        } else if (event.key === 'Escape') {
            this.stop();
        } else if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
            event.preventDefault();
            this.at = Math.min(this.past.length, Math.max(0, this.at + (event.key === 'ArrowUp' ? -1 : 1)));
            this.editor.value = this.past[this.at] ?? '';
        }
    }

    clear() {
        for (const output of this.outputs.splice(0)) if (output !== this.running?.output) output.dispose();
    }

    request() {
        const asked = { code: this.editor.value, echo: 'display', capture: CAPTURE };
        asked.timeout = number(this.timeout.value);
        asked.fuel = number(this.fuel.value);
        if (this.stdin.value) asked.stdin = this.stdin.value;
        else if (/\binput\b|\bgetpass\b/.test(asked.code)) asked.client_input = true;
        if (this.tools.value.trim()) asked.client_tools = JSON.parse(this.tools.value);
        // A person answers.
        if (asked.client_input || asked.client_tools) asked.timeout ??= ANSWERED;
        if (this.session) return asked;
        asked.image = this.image.value;
        asked.policy = this.policy.value;
        asked.memory_mb = number(this.memory.value);
        if (this.seed.value !== '') asked.deterministic = { seed: Number(this.seed.value) };
        return asked;
    }

    async start() {
        if (this.running || !this.editor.value.trim()) return;
        let request;
        try {
            request = this.request();
        } catch (error) {
            say(`Tools: ${text(error.message, 200)}`);
            return;
        }
        this.past.push(request.code);
        this.at = this.past.length;
        await this.run(request);
    }

    async run(request) {
        const output = new Output({
            code: request.code,
            limits: request,
            file: this.session ? fileOfSession(this.session) : fileOfRun,
            answer: answered,
        });
        this.runs.prepend(output.element);
        this.outputs.push(output);
        if (this.outputs.length > MAX_RUNS) this.outputs.shift().dispose();
        this.running = { output, abort: new AbortController() };
        this.go.disabled = true;
        this.halt.disabled = false;
        try {
            output.outcome(await this.streamed(request));
        } catch (error) {
            output.problem(error.name === 'AbortError' ? 'Stopped' : error);
        }
        this.running = null;
        this.go.disabled = false;
        this.halt.disabled = true;
        this.after?.();
    }

    async streamed(request) {
        const path = this.session ? `/v1/sessions/${encodeURIComponent(this.session)}/runs` : '/v1/runs';
        const { output, abort } = this.running;
        const sent = { headers: { Accept: 'text/event-stream' }, signal: abort.signal };
        const files = this.upload?.files ?? [];
        if (files.length) {
            sent.body = new FormData();
            sent.body.append('request', JSON.stringify(request));
            for (const file of files) sent.body.append('file', file, file.name);
        } else {
            sent.json = request;
        }
        let outcome;
        for await (const group of events(await send('POST', path, sent))) {
            const shown = [];
            for (const { kind, data } of group) {
                const content = JSON.parse(data);
                if (kind === 'outcome') outcome = content;
                else if (kind === 'problem') throw new Error(content.detail);
                else shown.push({ type: kind, ...content });
            }
            output.take(shown);
        }
        if (!outcome) throw new Error('The connection ended before the run');
        return outcome;
    }

    async stop() {
        if (!this.running) return;
        if (this.session) {
            // The session tells how the run ended.
            await send('POST', `/v1/sessions/${encodeURIComponent(this.session)}/interrupt`).catch(() => {});
        } else {
            this.running.abort.abort();
        }
    }
}

/** Answers a call of a tool, or of `input()`; `null` is the end of input, and for a tool an error. */
async function answered({ type, id }, line) {
    const answer = type === 'input' ? { answer: line } : line === null ? { error: 'there is no answer' } : { answer: parsed(line) };
    try {
        await send('POST', `/v1/calls/${encodeURIComponent(id)}`, { json: answer });
    } catch (error) {
        say(text(String(error), 500));
    }
}

/** JSON, or else the text itself. */
function parsed(line) {
    try {
        return JSON.parse(line);
    } catch {
        return line;
    }
}

export function page() {
    const prompt = new Prompt();
    const element = el('div', {}, el('h2', {}, 'Run in a fresh sandbox'), prompt.element);
    return {
        element,
        open() {
            prompt.editor.focus();
            prompt.images().catch(() => {});
        },
    };
}
