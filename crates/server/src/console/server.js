// The server: its health, the limits of the key, images, and for operators its figures.

import { get, quota, raw } from './api.js';
import { button, bytes, el, say, table, text } from './dom.js';

const LEVELS = /^belljar_(runs|sessions|queue|memory|waiting|running)/;

class ServerPage {
    constructor() {
        this.health = el('div');
        this.limits = el('div');
        this.images = el('div');
        this.figures = el('div');
        this.element = el('div', {}, el('h2', {}, 'Server'), el('div', { class: 'buttons' }, button('Refresh', () => this.open())),
            this.health, this.limits, this.images, this.figures);
    }

    async open() {
        const shown = [this.showHealth(), this.showImages(), this.showFigures()];
        for (const { reason } of await Promise.allSettled(shown)) if (reason) say(text(String(reason), 500));
        this.showLimits();
    }

    async showHealth() {
        const rows = [];
        for (const path of ['/healthz', '/readyz']) {
            const started = performance.now();
            const response = await raw('GET', path);
            rows.push([path, response.status, `${(performance.now() - started).toFixed(1)} ms`, await response.text()]);
        }
        this.health.replaceChildren(table('Health', ['Check', 'Status', 'Time', 'Answer'], rows));
    }

    showLimits() {
        if (!quota.size) {
            this.limits.replaceChildren(el('p', {}, 'This key has no limits of its own.'));
            return;
        }
        const amount = ({ qu }, value) => (value !== undefined && qu?.includes('bytes') ? bytes(Number(value)) : Number(value ?? 0).toLocaleString('en'));
        const rows = [...quota].map(([name, one]) => {
            const bar = el('progress', { max: Number(one.q) || 1, value: Math.max(0, (Number(one.q) || 0) - (Number(one.r) || 0)), 'aria-label': `${text(name, 64)} used` });
            return [name, bar, amount(one, one.r), amount(one, one.q), one.w ? `${one.w} s` : '', one.t ? `in ${one.t} s` : ''];
        });
        this.limits.replaceChildren(table('Limits of the key', ['Limit', 'Used', 'Left', 'Of', 'Window', 'Full again'], rows));
    }

    async showImages() {
        const { images } = await get('/v1/images');
        const rows = images.map(({ name, built_in: own, contents }) => [name, own ? 'built in' : 'added', contents ? bytes(contents.memory_bytes) : 'not made yet',
            contents?.description ?? '', (contents?.packages ?? []).join(', ')]);
        this.images.replaceChildren(table('Images', ['Image', 'Kind', 'Memory', 'Description', 'Packages'], rows));
    }

    async showFigures() {
        const response = await raw('GET', '/metrics');
        if (!response.ok) {
            this.figures.replaceChildren(el('p', {}, 'The figures of the server are for operators: their key says operator = true.'));
            return;
        }
        const lines = (await response.text()).split('\n');
        const help = new Map();
        const rows = [];
        for (const line of lines) {
            const about = /^# HELP (\S+) (.*)$/.exec(line);
            if (about) help.set(about[1], about[2]);
            const sample = /^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
            if (sample && !/_(bucket|created)$/.test(sample[1])) rows.push([sample[1], sample[2] ?? '', sample[3], help.get(sample[1].replace(/_(total|sum|count)$/, '')) ?? '']);
        }
        rows.sort(([a], [b]) => LEVELS.test(b) - LEVELS.test(a));
        this.figures.replaceChildren(table('Figures', ['Name', 'Labels', 'Value', 'Meaning'], rows.slice(0, 500)));
    }
}

export function page() {
    return new ServerPage();
}
