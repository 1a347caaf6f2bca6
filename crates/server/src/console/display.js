// Displays and previews of files. All of it is a guest's claim.

import { base } from './api.js';
import { bytes, el, table, text } from './dom.js';

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml'];
const ORDER = [...IMAGES, 'text/html', 'text/markdown', 'text/latex', 'application/json', 'text/plain'];
/** Characters of HTML that are shown in a frame, and of other text. */
const MAX_HTML = 2_000_000;
const MAX_TEXT = 65_536;
/** Rows of a CSV file in its preview. */
const MAX_ROWS = 50;

const TYPES = {
    png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp',
    svg: 'image/svg+xml', html: 'text/html', htm: 'text/html', csv: 'text/csv', tsv: 'text/csv',
};

/** Blobs' URLs of a part of the page, revoked together. */
export class Urls {
    constructor() {
        this.all = [];
    }

    of(content, type) {
        const url = URL.createObjectURL(new Blob([content], { type }));
        this.all.push(url);
        return url;
    }

    revoke() {
        this.all.forEach((url) => URL.revokeObjectURL(url));
        this.all = [];
    }
}

/** The best form of a display, with its other forms behind a disclosure. */
export function display({ data = {}, metadata = {} }, urls) {
    const forms = Object.keys(data);
    const best = ORDER.find((type) => type in data) ?? forms[0];
    const alternative = typeof data['text/plain'] === 'string' ? data['text/plain'] : best;
    const box = el('div', { class: 'display' });
    if (best === undefined) {
        box.append(el('p', {}, 'A display without content'));
        return box;
    }
    box.append(form(best, data[best], urls, alternative));
    const paths = metadata?.belljar?.paths;
    if (Array.isArray(paths)) box.append(el('small', {}, text(paths.join(', '), 500)));
    const others = forms.filter((type) => type !== best).slice(0, 32);
    if (others.length) {
        const list = el('div');
        const more = el('details', {}, el('summary', {}, `${others.length} other ${others.length > 1 ? 'forms' : 'form'}`), list);
        more.addEventListener('toggle', () => {
            if (more.open && !list.childElementCount) {
                list.append(...others.flatMap((type) => [el('h4', {}, text(type, 100)), pre(data[type])]));
            }
        });
        box.append(more);
    }
    return box;
}

function form(type, value, urls, alternative) {
    if (IMAGES.includes(type)) return image(type, value, urls, alternative);
    if (type === 'text/html') return frame(value, alternative);
    return pre(value);
}

function pre(value) {
    const shown = typeof value === 'string' ? value : JSON.stringify(value, null, 1);
    return el('pre', { tabindex: '0' }, text(shown, MAX_TEXT));
}

/** An image. */
export function image(type, value, urls, alternative) {
    if (type === 'image/svg+xml') return drawing(String(value), alternative);
    try {
        const content = Uint8Array.from(atob(String(value).replace(/\s/g, '')), (c) => c.charCodeAt(0));
        return picture(urls.of(content, type), alternative);
    } catch {
        return el('p', { class: 'note' }, 'An image that is not base64');
    }
}

/**
 * An SVG document in an `img` runs no scripts and loads nothing. Its user may open it in a tab, where a
 * blob would have the origin of the console.
 */
function drawing(content, alternative) {
    return picture(`data:image/svg+xml;charset=utf-8,${encodeURIComponent(content.toWellFormed())}`, alternative);
}

function picture(src, alternative) {
    const shown = el('img', { src, alt: text(alternative, 500) || 'figure', loading: 'lazy' });
    shown.addEventListener('error', () => shown.replaceWith(el('p', { class: 'note' }, 'An image that cannot be shown')));
    return shown;
}

/**
 * HTML in a frame without scripts, forms, links that lead out, and an origin. The page's policy holds in it
 * too, so the guest's own styles are not applied.
 */
export function frame(html, title) {
    const content = String(html).slice(0, MAX_HTML);
    const policy = `default-src 'none'; img-src data:; style-src ${location.origin}`;
    const head = `<!doctype html><meta http-equiv="Content-Security-Policy" content="${policy}">` +
        `<link rel="stylesheet" href="${location.origin}${base}/console/frame.css">`;
    const shown = el('iframe', {
        sandbox: '', srcdoc: head + content, title: `HTML: ${text(title, 200)}`, loading: 'lazy',
        referrerpolicy: 'no-referrer',
    });
    // The frame cannot tell its height.
    const rows = (content.match(/<(?:tr|p|li|br|div|h[1-6])\b/gi) ?? []).length;
    shown.style.height = `${Math.min(420, 40 + rows * 26)}px`;
    return shown;
}

/** A preview of a file's content. */
export function preview(path, content, urls, isWhole) {
    const type = TYPES[path.split('.').pop().toLowerCase()];
    const decoded = new TextDecoder('utf-8', { fatal: false }).decode(content);
    if (type === 'image/svg+xml' && isWhole) return drawing(decoded, path);
    if (IMAGES.includes(type) && isWhole) return picture(urls.of(content, type), path);
    if (type === 'text/html' && isWhole) return frame(decoded, path);
    const strange = (decoded.slice(0, 4096).match(/[\u0000-\u0008\ufffd]/g) ?? []).length;
    if (strange > 8) return el('pre', { tabindex: '0' }, hex(content));
    if (type === 'text/csv') {
        const [heads, ...rows] = cells(decoded, path.endsWith('.tsv') ? '\t' : ',');
        if (heads) return table(`First rows of ${text(path, 200)}`, heads.map((cell) => text(cell, 200)), rows);
    }
    return el('div', {}, pre(decoded), isWhole ? null : el('small', {}, `The first ${bytes(content.byteLength)}`));
}

function cells(content, separator) {
    const rows = [[]];
    const pattern = new RegExp(`("(?:[^"]|"")*"|[^${separator}\\n\\r]*)(${separator}|\\r?\\n|$)`, 'g');
    for (const [whole, cell, end] of content.matchAll(pattern)) {
        if (!whole) break;
        rows.at(-1).push(text(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell, 200));
        if (end !== separator) {
            if (rows.length > MAX_ROWS) break;
            rows.push([]);
        }
    }
    return rows.filter((row) => row.length).map((row) => row.slice(0, 50));
}

function hex(content) {
    const start = new Uint8Array(content.slice(0, 512));
    const line = (at) => {
        const part = [...start.subarray(at, at + 16)];
        const digits = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47);
        return `${at.toString(16).padStart(4, '0')}  ${digits}  ${part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join('')}`;
    };
    return Array.from({ length: Math.ceil(start.length / 16) }, (_, at) => line(at * 16)).join('\n');
}
