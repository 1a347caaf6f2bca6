// Pages, the key and keyboard shortcuts.

import { get, key } from './api.js';
import { button, el, field, say, text } from './dom.js';
import { page as run } from './run.js';
import { page as sessions } from './sessions.js';
import { page as batch } from './batch.js';
import { page as receipts } from './receipts.js';
import { page as server } from './server.js';
import { page as reference } from './reference.js';

const PAGES = [
    ['run', 'Run', run],
    ['sessions', 'Sessions', sessions],
    ['batch', 'Batch', batch],
    ['receipts', 'Receipts', receipts],
    ['server', 'Server', server],
    ['api', 'API', reference],
];

const main = document.getElementById('main');
const nav = document.getElementById('nav');
// Pages keep what is on them while others are shown.
const made = new Map();
let current;

nav.append(...PAGES.map(([name, title], at) => el('a', { href: `#/${name}`, title: `Press ${at + 1}` }, title)));
document.getElementById('key-button').addEventListener('click', () => askForKey());
document.addEventListener('no-key', () => askForKey('The server does not know this key.'));
addEventListener('hashchange', show);
addEventListener('keydown', shortcut);

function show() {
    const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decode);
    const [known, title, make] = PAGES.find(([one]) => one === name) ?? PAGES[0];
    if (!made.has(known)) made.set(known, make());
    const page = made.get(known);
    for (const link of nav.children) {
        if (link.hash === `#/${known}`) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
    }
    document.title = `${title} – belljar console`;
    if (current !== page) main.replaceChildren(page.element);
    current = page;
    page.open?.(...rest);
}

function decode(part) {
    try {
        return decodeURIComponent(part);
    } catch {
        return part;
    }
}

function shortcut(event) {
    const isTyping = event.target.closest?.('input, textarea, select, [contenteditable], dialog');
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    const page = PAGES[Number(event.key) - 1];
    if (page) location.hash = `#/${page[0]}`;
    else if (event.key === '?') help();
    else if (event.key === '/') {
        event.preventDefault();
        main.querySelector('textarea, input:not([type=hidden])')?.focus();
    }
}

function help() {
    const keys = [
        ['1 … 6', 'the pages'],
        ['/', 'to the first field'],
        ['Ctrl+Enter', 'runs the code in the editor'],
        ['Escape', 'in the editor: stops the run'],
        ['Alt+↑, Alt+↓', 'in the editor: earlier and later code'],
        ['↑ ↓ Home End', 'in a tree: moves'],
        ['f, r, c', 'in a tree: forks, rewinds, compares'],
        ['?', 'this list'],
    ];
    const list = el('dl', {}, keys.flatMap(([one, meaning]) => [el('dt', {}, el('kbd', {}, one)), el('dd', {}, meaning)]));
    const dialog = open('Keys of the keyboard', list);
    dialog.append(el('form', { method: 'dialog' }, el('button', {}, 'Close')));
}

function open(title, ...content) {
    document.querySelector('dialog')?.remove();
    const dialog = el('dialog', { 'aria-label': title }, el('h2', {}, title), content);
    dialog.addEventListener('close', () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}

function askForKey(why) {
    if (document.querySelector('dialog.key')) return;
    const input = el('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', value: key.get() });
    const hint = 'It stays in this tab, until the tab is closed, and is sent to this server only. A server without keys needs none.';
    const form = el('form', {}, el('p', { role: 'alert' }, why ?? ''), field('Key', input, hint),
        el('button', {}, 'Use the key'), button('Forget the key', () => leave('')), button('Cancel', () => dialog.close()));
    const leave = (value) => {
        key.set(value.trim());
        dialog.close();
        // The event that removes it comes later, and the server may ask for a key before.
        dialog.remove();
        made.clear();
        current = null;
        start();
    };
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        leave(input.value);
    });
    const dialog = open('Key', form);
    dialog.classList.add('key');
    input.focus();
}

async function start() {
    show();
    try {
        await get('/v1/images');
        say('');
    } catch (error) {
        say(error.status === 401 ? 'The server needs a key' : text(String(error), 500));
    }
}

start();
