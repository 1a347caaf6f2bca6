// Elements and text. Nothing in the console parses HTML: texts of guests become text nodes.

/** Makes an element. `on…` properties are listeners, `class` and others are attributes. */
export function el(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
        else if (name === 'value') element.value = value;
        else element.setAttribute(name, value === true ? '' : value);
    }
    element.append(...children.flat().filter((child) => child !== undefined && child !== null));
    return element;
}

export function button(label, onclick, properties = {}) {
    return el('button', { type: 'button', onclick, ...properties }, label);
}

/** A form field with its label. */
export function field(label, control, hint) {
    return el('label', { class: 'field' }, el('span', {}, label), control, hint ? el('small', {}, hint) : null);
}

export function options(values, chosen) {
    return values.map((value) => el('option', { value, selected: value === chosen }, value));
}

/** A table with a caption for screen readers. Cells are texts or nodes. */
export function table(caption, heads, rows) {
    const head = el('thead', {}, el('tr', {}, heads.map((text) => el('th', { scope: 'col' }, text))));
    const cells = (row) => el('tr', {}, row.map((cell) => el('td', {}, cell instanceof Node ? cell : text(cell))));
    const inner = el('table', {}, el('caption', {}, caption), head, el('tbody', {}, rows.map(cells)));
    return el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': caption }, inner);
}

/** Announces a text to screen readers and shows it at the foot of the page. */
export function say(message) {
    document.getElementById('status').textContent = message;
}

// Control characters, and those that reorder or hide text.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text from a stranger, with invisible and reordering characters made visible. */
export function text(value, max = 10_000) {
    let shown = String(value ?? '');
    if (shown.length > max) shown = `${shown.slice(0, max)}… ${(shown.length - max).toLocaleString('en')} more characters`;
    return shown.replace(UNSEEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

export function firstLine(code) {
    return text((code.split('\n').find((line) => line.trim()) ?? '').trim(), 200);
}

export function bytes(count) {
    if (count < 1024) return `${count} B`;
    const units = ['KiB', 'MiB', 'GiB'];
    let value = count;
    let unit = 'B';
    while (value >= 1024 && units.length) [value, unit] = [value / 1024, units.shift()];
    return `${value.toFixed(1)} ${unit}`;
}

export function count(value) {
    return Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(value);
}

export function duration(ms) {
    return ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

/** Saves bytes as a file of the user. */
export function download(name, content) {
    const blob = new Blob([content], { type: 'application/octet-stream' });
    const url = URL.createObjectURL(blob);
    const link = el('a', { href: url, download: text(name).replaceAll('/', '_') });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A view of a few of many rows of the same height: only those in sight are in the document. */
export class Rows {
    constructor(host, height, render) {
        Object.assign(this, { host, height, render, count: 0, shown: new Map() });
        this.space = el('div', { class: 'space', role: 'presentation' });
        host.append(this.space);
        host.addEventListener('scroll', () => this.draw(), { passive: true });
        new ResizeObserver(() => this.draw()).observe(host);
    }

    set(count) {
        this.count = count;
        this.space.style.height = `${count * this.height}px`;
        this.redraw();
    }

    redraw() {
        this.space.replaceChildren();
        this.shown.clear();
        this.draw();
    }

    draw() {
        const margin = 10;
        const first = Math.max(0, Math.floor(this.host.scrollTop / this.height) - margin);
        const last = Math.min(this.count, Math.ceil((this.host.scrollTop + this.host.clientHeight) / this.height) + margin);
        for (const [at, row] of this.shown) {
            if ((at < first || at >= last) && !row.contains(document.activeElement)) {
                row.remove();
                this.shown.delete(at);
            }
        }
        for (let at = first; at < last; at++) this.row(at);
    }

    row(at) {
        if (!this.shown.has(at)) {
            const row = this.render(at);
            row.style.top = `${at * this.height}px`;
            this.shown.set(at, row);
            this.space.append(row);
        }
        return this.shown.get(at);
    }

    /** Scrolls to a row and moves the focus to it. */
    focus(at) {
        const top = at * this.height;
        const { scrollTop, clientHeight } = this.host;
        if (top < scrollTop) this.host.scrollTop = top;
        else if (top + this.height > scrollTop + clientHeight) this.host.scrollTop = top + this.height - clientHeight;
        this.row(at).focus({ preventScroll: true });
    }
}
