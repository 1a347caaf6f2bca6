// One run as it happens: text, displays, tables, files, the error, and what was used of the limits.

import { encoded, send } from './api.js';
import { Painter } from './ansi.js';
import { Urls, display, preview } from './display.js';
import { button, bytes, count, download, duration, el, say, table, text } from './dom.js';

/** Lines of output in one block of the page, blocks of one run, displays of one run. */
const LINES = 200;
const MAX_BLOCKS = 250;
const MAX_DISPLAYS = 200;
/** Bytes of a file that a preview gets. */
const MAX_PREVIEW = 4 << 20;
const MAX_FILES = 500;

/** Consecutive text of one stream. */
class Stream {
    constructor(name, made) {
        this.element = el('div', { class: `stream ${name}`, role: 'group', 'aria-label': name });
        this.painter = new Painter();
        this.made = made;
        this.rest = '';
        this.block = null;
        this.last = el('span');
    }

    append(added) {
        const parts = (this.rest + added).split('\n');
        this.rest = parts.pop();
        // A line that never ends is shown cut; its beginning is enough.
        if (this.rest.length > 40_000) this.rest = this.rest.slice(0, 20_000) + this.rest.slice(-1000);
        let nodes = [];
        for (const line of parts) {
            if (!this.block || this.lines >= LINES) {
                this.block?.append(...nodes);
                nodes = [];
                this.block = el('div', { class: 'lines' });
                this.lines = 0;
                this.element.append(this.block);
                this.made(this.block);
            }
            nodes.push(...this.painter.line(line), '\n');
            this.lines++;
        }
        this.last.remove();
        this.block?.append(...nodes);
        if (this.rest) {
            const painter = Object.assign(new Painter(), { colour: this.painter.colour, bold: this.painter.bold });
            this.last.replaceChildren(...painter.line(this.rest));
            this.element.append(this.last);
        }
    }
}

export class Output {
    /**
     * @param limits what the run may use: `timeout` in seconds, `fuel`, `memory_mb`, `output_bytes`
     * @param file the path of a file's content by its path, once the outcome is there
     * @param answer takes the event of a call, and the answer to it
     */
    constructor({ code, limits = {}, file, answer }) {
        Object.assign(this, { code, limits, file, answer });
        this.urls = new Urls();
        this.body = el('div', { class: 'events' });
        this.meters = el('div', { class: 'meters' });
        this.foot = el('div', { class: 'outcome' });
        this.element = el('section', { class: 'run', 'aria-label': 'Output' }, this.body, this.foot, this.meters);
        this.blocks = [];
        this.displays = new Map();
        this.calls = new Map();
        this.asked = new Map();
        this.written = { stdout: 0, stderr: 0 };
        this.displayed = this.events = this.dropped = 0;
        this.pending = [];
        this.begun = performance.now();
        this.meter('Time', 0, (limits.timeout ?? 5) * 1000, duration);
        this.ticking = setInterval(() => this.tick(), 100);
    }

    /** Takes events; they are shown with the next frame of the screen. */
    take(events) {
        this.pending.push(...events);
        if (!this.drawing) {
            this.drawing = requestAnimationFrame(() => this.flush());
        }
    }

    flush() {
        this.drawing = null;
        const events = this.pending;
        this.pending = [];
        // Text of one stream is appended at once.
        let joined = null;
        const append = () => {
            if (joined) this.write(joined.type, joined.text.join(''));
            joined = null;
        };
        for (const event of events) {
            this.events++;
            if (event.type === 'stdout' || event.type === 'stderr') {
                if (joined?.type !== event.type) append();
                joined ??= { type: event.type, text: [] };
                joined.text.push(String(event.text));
                continue;
            }
            append();
            this.event(event);
        }
        append();
    }

    write(name, written) {
        this.clearIfWaiting();
        this.written[name] += written.length;
        if (this.stream?.name !== name) {
            this.stream = { name, view: new Stream(name, (block) => this.bound(block)) };
            this.body.append(this.stream.view.element);
        }
        this.stream.view.append(written);
    }

    /** Removes the oldest lines when there are too many. */
    bound(block) {
        this.blocks.push(block);
        if (this.blocks.length <= MAX_BLOCKS) return;
        this.blocks.shift().remove();
        this.dropped += LINES;
        this.cut ??= this.body.insertBefore(el('p', { class: 'note' }), this.body.firstChild);
        this.cut.textContent = `${this.dropped.toLocaleString('en')} earlier lines are not shown`;
    }

    add(...nodes) {
        this.clearIfWaiting();
        this.stream = null;
        this.body.append(...nodes);
    }

    note(message) {
        this.add(el('p', { class: 'note' }, message));
    }

    clearIfWaiting() {
        if (!this.clearing) return;
        this.clearing = false;
        this.clear();
    }

    clear() {
        this.body.replaceChildren();
        this.urls.revoke();
        this.displays.clear();
        Object.assign(this, { blocks: [], stream: null, cut: null, displayed: 0 });
    }

    event(event) {
        switch (event.type) {
            case 'started': this.begun = performance.now() - (event.at_ms ?? 0); break;
            case 'display':
            case 'result': this.show(event); break;
            case 'update_display': this.update(event); break;
            case 'clear':
                if (event.wait) this.clearing = true;
                else this.clear();
                break;
            case 'tool_call': this.called(event); break;
            case 'tool_answer': this.answered(event); break;
            case 'input': this.ask(event, text(event.prompt, 1000) || 'The code asks for a line'); break;
            case 'call':
                this.ask(event, `${text(event.name, 100)}(${text(JSON.stringify(event.arguments), 1000)}) in JSON`);
                break;
            case 'call_cancelled': this.asked.get(event.id)?.remove(); break;
            case 'interrupted': this.note(`Interrupted: ${text(event.reason)}`); break;
            case 'dropped': this.note(`${event.events} events were dropped: the page read too slowly`); break;
            case 'file_written': this.wrote(event); break;
            case 'error': this.failed(event); break;
            default:
        }
    }

    show(event) {
        this.displayed++;
        if (this.displayed > MAX_DISPLAYS) {
            if (this.displayed === MAX_DISPLAYS + 1) this.note(`Displays after the first ${MAX_DISPLAYS} are not shown`);
            return;
        }
        const shown = display(event, this.urls);
        shown.classList.toggle('result', event.type === 'result');
        if (event.display_id) this.displays.set(event.display_id, shown);
        this.add(shown);
    }

    update(event) {
        const old = this.displays.get(event.display_id);
        if (!old?.isConnected) return;
        const shown = display(event, this.urls);
        old.replaceWith(shown);
        this.displays.set(event.display_id, shown);
    }

    called(event) {
        if (this.calls.size >= MAX_DISPLAYS) return;
        const summary = el('summary', {}, el('strong', {}, text(event.name, 100)), ' ', el('span', { class: 'state' }, 'called'));
        const call = el('details', { class: 'call' }, summary, el('pre', { tabindex: '0' }, text(JSON.stringify(event.arguments, null, 1), 10_000)));
        this.calls.set(String(event.id), call);
        this.add(call);
    }

    answered(event) {
        const call = this.calls.get(String(event.id));
        if (!call) return;
        const { ok, error, answer_bytes: size, duration_ms: time } = event;
        call.querySelector('.state').textContent = ok ? 'answered' : text(error?.kind ?? 'failed', 100);
        const told = ok ? `${bytes(size ?? 0)} in ${duration(time ?? 0)}` : text(error?.message, 1000);
        call.append(el('p', { class: 'note' }, told));
    }

    /** Asks for the answer that the code waits for. */
    ask(event, prompt) {
        const input = el('input', { type: 'text', autocomplete: 'off' });
        const form = el('form', { class: 'ask' }, el('label', {}, el('span', {}, prompt), input), el('button', {}, 'Answer'),
            button(event.type === 'input' ? 'End of input' : 'No answer', () => done(null), { class: 'quiet' }));
        const done = (line) => {
            form.replaceWith(el('p', { class: 'note' }, `${prompt} ${line === null ? '(none)' : text(line)}`));
            this.asked.delete(event.id);
            this.answer(event, line);
        };
        form.addEventListener('submit', (submitted) => {
            submitted.preventDefault();
            done(input.value);
        });
        this.asked.set(event.id, form);
        this.add(form);
        input.focus();
    }

    wrote({ path, size }) {
        this.files ??= [];
        if (this.files.length < MAX_FILES) this.files.push({ path, size });
    }

    failed({ error, detail }) {
        const parts = [el('h3', {}, text(error, 2000))];
        if (detail?.hint) parts.push(el('p', {}, text(detail.hint, 2000)));
        for (const { message, line } of (detail?.violations ?? []).slice(0, 100)) {
            parts.push(el('p', {}, `${line ? `line ${line}: ` : ''}${text(message, 500)}`));
        }
        if (detail?.line) parts.push(excerpt(this.code, detail.line));
        if (detail?.traceback) {
            parts.push(el('details', {}, el('summary', {}, 'Traceback'), el('pre', { tabindex: '0' }, text(detail.traceback, 65_536))));
        }
        this.add(el('div', { class: 'error', role: 'alert' }, parts));
    }

    /** A failure of the request. */
    problem(error) {
        this.stop();
        this.add(el('div', { class: 'error', role: 'alert' }, el('h3', {}, text(String(error), 4000))));
    }

    outcome(outcome) {
        this.flush();
        this.stop();
        const { usage = {} } = outcome;
        this.meter('Time', usage.wall_ms ?? 0, (this.limits.timeout ?? 5) * 1000, duration);
        this.meter('Fuel', usage.fuel ?? 0, this.limits.fuel, count);
        this.meter('Memory', usage.memory_peak_bytes ?? 0, (this.limits.memory_mb ?? 256) * 2 ** 20, bytes);
        this.meter('Output', Math.max(usage.stdout_bytes ?? 0, usage.stderr_bytes ?? 0), this.limits.output_bytes ?? 2 ** 20, bytes);
        this.meter('Files', usage.workspace_bytes ?? 0, (this.limits.workspace_mb ?? 64) * 2 ** 20, bytes);
        const state = outcome.success ? 'Succeeded' : 'Failed';
        this.foot.append(el('p', { class: outcome.success ? 'good' : 'bad' }, `${state} in ${duration(usage.wall_ms ?? 0)}`));
        if (outcome.interpreter_restarted) this.foot.append(el('p', { class: 'note' }, 'The interpreter was restarted'));
        if (outcome.truncated?.length) this.foot.append(el('p', { class: 'note' }, `Cut: ${text(outcome.truncated.join(', '))}`));
        if (outcome.result !== null && outcome.result !== undefined) {
            this.foot.append(el('h3', {}, 'Result'), el('pre', { tabindex: '0' }, text(JSON.stringify(outcome.result, null, 1), 65_536)));
        }
        for (const frame of (outcome.dataframes ?? []).slice(0, 50)) this.foot.append(dataframe(frame));
        if (outcome.files?.length) this.foot.append(this.list(outcome));
        say(`${state}: ${text(outcome.error ?? '', 200)}`);
    }

    list(outcome) {
        const files = outcome.files.slice(0, MAX_FILES);
        const place = el('div');
        const rows = files.map((entry) => [
            entry.path, bytes(entry.size), entry.media_type ?? '', entry.sha256 ? `${entry.sha256.slice(0, 12)}…` : '',
            fileButtons(entry, this.file(outcome, entry.path), place, this.urls),
        ]);
        const heads = ['Path', 'Size', 'Type', 'SHA-256', 'Actions'];
        const more = outcome.files.length - files.length;
        return el('div', {}, table('Files of the run', heads, rows),
            more > 0 ? el('p', { class: 'note' }, `${more} more files`) : null, place);
    }

    meter(name, used, limit, shown) {
        const id = `meter-${name}`;
        let meter = this.meters.querySelector(`[data-name="${id}"]`);
        if (!meter) {
            const bar = el('progress', { max: 1, 'aria-label': `${name} used` });
            meter = el('div', { class: 'meter', 'data-name': id }, el('span', {}, name), bar, el('span', { class: 'figure' }));
            this.meters.append(meter);
        }
        const bar = meter.querySelector('progress');
        bar.hidden = !limit;
        bar.value = limit ? Math.min(1, used / limit) : 0;
        meter.classList.toggle('full', Boolean(limit) && used >= limit);
        meter.lastChild.textContent = limit ? `${shown(used)} of ${shown(limit)}` : shown(used);
    }

    tick() {
        this.meter('Time', performance.now() - this.begun, (this.limits.timeout ?? 5) * 1000, duration);
        const written = Math.max(this.written.stdout, this.written.stderr);
        if (written) this.meter('Output', written, this.limits.output_bytes ?? 2 ** 20, bytes);
    }

    stop() {
        clearInterval(this.ticking);
        this.asked.forEach((form) => form.remove());
        this.element.classList.add('over');
    }

    dispose() {
        this.stop();
        if (this.drawing) cancelAnimationFrame(this.drawing);
        this.urls.revoke();
        this.element.remove();
    }
}

/** The lines around a line of code, with that line marked. */
function excerpt(code, line) {
    const all = code.split('\n');
    const first = Math.max(1, line - 3);
    const lines = all.slice(first - 1, line + 2).map((content, at) => {
        const number = first + at;
        const shown = `${String(number).padStart(4)}  ${text(content, 500)}\n`;
        return number === line ? el('mark', { 'aria-label': `line ${number}, where the code failed` }, shown) : shown;
    });
    return el('pre', { class: 'excerpt', tabindex: '0' }, lines);
}

function dataframe({ name, repr, table: shown }) {
    const title = text(name, 100);
    if (!shown) return el('div', {}, el('h3', {}, title), el('pre', { tabindex: '0' }, text(repr, 65_536)));
    const cell = (value) => text(value === null || typeof value !== 'object' ? value : JSON.stringify(value), 200);
    const rows = (shown.rows ?? []).slice(0, 100).map((row, at) => [cell(shown.index?.[at]), ...row.slice(0, 50).map(cell)]);
    const heads = ['', ...(shown.columns ?? []).slice(0, 50).map(cell)];
    const size = shown.shape ? ` (${shown.shape.join(' × ')})` : '';
    return table(`${title}${size}`, heads, rows);
}

/** Buttons that show and save a file. */
export function fileButtons({ path, size }, url, place, urls) {
    const fetched = async (headers) => (await send('GET', url, { headers })).arrayBuffer();
    const failed = (error) => place.replaceChildren(el('p', { class: 'bad', role: 'alert' }, text(String(error), 1000)));
    const look = async () => {
        const isWhole = size <= MAX_PREVIEW;
        const content = await fetched(isWhole ? {} : { Range: 'bytes=0-65535' });
        place.replaceChildren(el('h4', {}, text(path, 500)), preview(path, content, urls, isWhole));
    };
    return el('span', { class: 'buttons' },
        button('Preview', () => look().catch(failed), { 'aria-label': `Preview ${text(path, 200)}` }),
        button('Download', async () => {
            try {
                download(path.split('/').pop(), await fetched({}));
            } catch (error) {
                failed(error);
            }
        }, { 'aria-label': `Download ${text(path, 200)}` }));
}

export const fileOfRun = (outcome, path) => `/v1/runs/${outcome.run}/files/${encoded(path)}`;
export const fileOfSession = (id) => (_, path) => `/v1/sessions/${encodeURIComponent(id)}/files/${encoded(path)}`;
