// Batches: a run for each line of JSON, and grades where a line says what is expected.

import { lines, send } from './api.js';
import { button, bytes, count, download, duration, el, field, Rows, say, text } from './dom.js';

const ROW = 30;
/** Results that stay on the page; the file has all of them. */
const MAX_KEPT = 64 << 20;

const EXAMPLE = ['{"id": "sum", "code": "print(sum(range(10)))", "expect": "45"}',
    '{"id": "fails", "code": "print(1 / 0)", "expect": "0"}'].join('\n');

class Batch {
    constructor() {
        this.input = el('textarea', { rows: 8, class: 'code', spellcheck: 'false', placeholder: EXAMPLE });
        const file = el('input', { type: 'file', accept: '.jsonl,.ndjson,.json,application/x-ndjson' });
        file.addEventListener('change', async () => {
            if (file.files[0]) this.input.value = await file.files[0].text();
        });
        this.go = button('Run the batch', () => this.start(), { class: 'main' });
        this.halt = button('Stop', () => this.abort?.abort(), { disabled: true });
        this.save = button('Download results', () => download('results.jsonl', this.kept.join('\n') + '\n'), { disabled: true });
        this.progress = el('progress', { max: 1, value: 0, 'aria-label': 'Runs that have ended' });
        this.score = el('p', { role: 'status' });
        this.host = el('div', { class: 'tree results', role: 'listbox', 'aria-label': 'Results', tabindex: '0', onkeydown: (event) => this.key(event) });
        this.view = new Rows(this.host, ROW, (at) => this.row(at));
        this.details = el('section', { class: 'details', 'aria-label': 'Result' });
        this.clear();
        const hint = 'One request in JSON on each line, as for POST /v1/batch. With "expect", the run is graded: its output has to be that text, apart from space at the ends.';
        this.element = el('div', {}, el('h2', {}, 'Batch'), field('Requests', this.input, hint), field('From a file', file),
            el('div', { class: 'buttons' }, this.go, this.halt, this.save), this.progress, this.score,
            el('div', { class: 'columns' }, this.host, this.details));
    }

    clear() {
        Object.assign(this, { results: [], kept: [], size: 0, passed: 0, graded: 0, failed: 0, fuel: 0, at: 0 });
    }

    async start() {
        if (this.abort) return;
        this.clear();
        this.details.replaceChildren();
        const asked = this.input.value.split('\n').filter((line) => line.trim());
        const requests = [];
        for (const [at, line] of asked.entries()) {
            let request;
            try {
                request = JSON.parse(line);
            } catch (error) {
                say(`Line ${at + 1} is not JSON: ${text(error.message, 200)}`);
                return;
            }
            const { expect, id, ...rest } = request;
            // Results come as they finish: the number tells which line they answer.
            requests.push({ sent: JSON.stringify({ ...rest, id: at }), expect, title: id ?? at + 1, code: rest.code });
        }
        if (!requests.length) return;
        this.abort = new AbortController();
        this.go.disabled = true;
        this.halt.disabled = false;
        const started = performance.now();
        try {
            const response = await send('POST', '/v1/batch?unordered=true', {
                body: requests.map(({ sent }) => sent).join('\n') + '\n',
                headers: { 'Content-Type': 'application/x-ndjson' },
                signal: this.abort.signal,
            });
            for await (const group of lines(response)) {
                group.forEach((line) => this.take(line, requests));
                this.draw(requests.length, performance.now() - started);
            }
        } catch (error) {
            say(error.name === 'AbortError' ? 'Stopped' : text(String(error), 1000));
        }
        this.abort = null;
        this.go.disabled = false;
        this.halt.disabled = true;
        this.save.disabled = !this.kept.length;
    }

    take(line, requests) {
        const outcome = JSON.parse(line);
        const asked = requests[outcome.id] ?? {};
        let grade = null;
        if (asked.expect !== undefined) {
            grade = Boolean(outcome.success) && String(outcome.stdout ?? '').trim() === String(asked.expect).trim();
            this.graded++;
            this.passed += grade;
        }
        if (!outcome.success) this.failed++;
        this.fuel += outcome.usage?.fuel ?? 0;
        this.size += line.length;
        const isKept = this.size <= MAX_KEPT;
        if (isKept) this.kept.push(JSON.stringify({ ...outcome, id: asked.title, ...(grade === null ? {} : { passed: grade }) }));
        this.results.push({ asked, grade, outcome: isKept ? outcome : { error: outcome.error, success: outcome.success, usage: outcome.usage } });
    }

    draw(total, time) {
        this.progress.value = this.results.length / total;
        const grades = this.graded ? `, ${this.passed} of ${this.graded} passed` : '';
        this.score.textContent = `${this.results.length} of ${total} ended${grades}, ${this.failed} failed, ${count(this.fuel)} fuel, ${duration(time)}`;
        this.view.set(this.results.length);
    }

    row(at) {
        const { asked, grade, outcome } = this.results[at];
        const good = grade ?? Boolean(outcome.success);
        const word = grade === null ? (good ? 'ok' : 'failed') : good ? 'passed' : 'wrong';
        const shown = outcome.error ?? String(outcome.stdout ?? '').split('\n')[0];
        return el('div', { class: 'row', role: 'option', tabindex: '-1', 'aria-selected': String(at === this.at), onclick: () => this.choose(at) },
            el('span', { class: `dot ${good ? 'good' : 'bad'}` }, good ? '●' : '✕'), el('span', { class: 'number' }, text(asked.title, 64)),
            el('span', {}, word), el('code', {}, text(shown, 200)), el('small', {}, duration(outcome.usage?.wall_ms ?? 0)));
    }

    choose(at) {
        if (!this.results[at]) return;
        this.view.shown.get(this.at)?.setAttribute('aria-selected', 'false');
        this.at = at;
        this.view.focus(at);
        this.view.shown.get(at).setAttribute('aria-selected', 'true');
        const { asked, outcome } = this.results[at];
        const part = (title, value) => (value ? [el('h4', {}, title), el('pre', { tabindex: '0' }, text(value, 65_536))] : []);
        this.details.replaceChildren(el('h3', {}, text(asked.title, 64)), ...part('Code', asked.code), ...part('Output', outcome.stdout),
            ...part('Expected', asked.expect), ...part('Error', outcome.error_detail?.traceback ?? outcome.error),
            el('p', { class: 'note' }, `${count(outcome.usage?.fuel ?? 0)} fuel, ${bytes(outcome.usage?.memory_peak_bytes ?? 0)}`));
    }

    key(event) {
        const moves = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
        if (!(event.key in moves)) return;
        event.preventDefault();
        this.choose(Math.min(this.results.length - 1, Math.max(0, this.at + moves[event.key])));
    }
}

export function page() {
    return new Batch();
}
