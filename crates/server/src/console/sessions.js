// Sessions: a list, their runs as trees, and what their states hold.

import { get, post, send } from './api.js';
import { bytes, button, count, duration, el, field, say, table, text } from './dom.js';
import { Urls } from './display.js';
import { fileButtons, fileOfSession } from './output.js';
import { Prompt } from './run.js';
import { current, difference, past } from './states.js';
import { Tree, build } from './tree.js';

/** Sessions whose histories are read: the last used ones. */
const MAX_READ = 200;
/** Histories that are read at the same time. */
const AT_ONCE = 8;
const MAX_DIFFERENCES = 500;

const path = (id) => `/v1/sessions/${encodeURIComponent(id)}`;
const title = (session) => text(session.name ?? session.id, 64);

class Sessions {
    constructor() {
        this.known = [];
        this.prompts = new Map();
        this.urls = new Urls();
        this.tree = new Tree({
            choose: (node) => this.choose(node),
            fork: (node) => this.act(() => this.fork(node)),
            rewind: (node) => this.act(() => this.rewind(node)),
            compare: (node) => this.act(() => this.compare(node)),
        });
        this.list = el('div', { class: 'sessions' });
        this.details = el('section', { class: 'details', 'aria-label': 'Run' }, el('p', {}, 'Choose a run in the tree.'));
        this.session = el('section', { class: 'session', 'aria-label': 'Session' });
        this.name = el('input', { type: 'text', maxlength: 64, pattern: '[A-Za-z0-9_\\-]{1,64}', placeholder: 'without a name' });
        const create = el('form', { class: 'inline' }, field('New session', this.name), el('button', { class: 'main' }, 'Create'),
            button('Refresh', () => this.act(() => this.load())));
        create.addEventListener('submit', (event) => {
            event.preventDefault();
            this.act(() => this.create());
        });
        this.summary = el('p', { class: 'note' });
        this.element = el('div', {}, el('h2', {}, 'Sessions'), create, this.summary,
            el('div', { class: 'columns' }, el('div', {}, this.tree.element, this.list), el('div', {}, this.details, this.session)));
    }

    open(id) {
        this.wanted = id;
        this.act(() => this.load());
    }

    /** Does one thing after the other, and shows what fails. */
    async act(work) {
        this.busy = (this.busy ?? Promise.resolve()).then(work).catch((error) => say(text(String(error), 1000)));
        await this.busy;
    }

    async load() {
        const { sessions } = await get('/v1/sessions');
        const read = sessions.toSorted((a, b) => a.idle_seconds - b.idle_seconds).slice(0, MAX_READ);
        const histories = [];
        const waiting = read.entries();
        const reader = async () => {
            for (const [at, session] of waiting) {
                // A session may end meanwhile.
                const history = await get(`${path(session.id)}/history`).catch(() => null);
                if (history) histories[at] = { session, runs: history.runs };
            }
        };
        await Promise.all(Array.from({ length: AT_ONCE }, reader));
        this.known = histories.filter(Boolean).sort((a, b) => (a.session.created < b.session.created ? -1 : 1));
        this.tree.set(build(this.known));
        const runs = this.tree.list.filter(({ node }) => node.run.execution);
        const fuel = runs.reduce((sum, { node }) => sum + node.run.fuel, 0);
        const time = runs.reduce((sum, { node }) => sum + node.run.wall_ms, 0);
        const unread = sessions.length - this.known.length;
        this.summary.textContent = `${sessions.length} sessions, ${runs.length} runs, ${duration(time)}, ${count(fuel)} fuel` +
            (unread > 0 ? `. The runs of ${unread} sessions are not shown.` : '');
        this.draw(sessions);
        if (this.wanted) this.show(this.wanted);
    }

    draw(sessions) {
        const costs = new Map(this.known.map(({ session, runs }) => [session.id, runs]));
        const rows = sessions.slice(0, 1000).map((session) => {
            const runs = costs.get(session.id) ?? [];
            const labels = Object.entries(session.labels).map(([key, value]) => `${key}=${value}`).join(' ');
            return [
                el('a', { href: `#/sessions/${session.id}` }, title(session)), session.status, session.image, runs.length,
                count(runs.reduce((sum, run) => sum + run.fuel, 0)), `${Math.round(session.idle_seconds)} s`,
                session.lease_seconds === null ? '' : `${Math.round(session.lease_seconds)} s`, labels,
            ];
        });
        const heads = ['Session', 'Status', 'Image', 'Runs', 'Fuel', 'Idle', 'Lease', 'Labels'];
        this.list.replaceChildren(table('Sessions', heads, rows));
    }

    async create() {
        const name = this.name.value.trim();
        const made = await post('/v1/sessions', name ? { name } : {});
        this.name.value = '';
        location.hash = `#/sessions/${made.id}`;
        await this.load();
    }

    choose(node) {
        const { run, session } = node;
        const does = (label, work, key) => button(label, () => this.act(() => work.call(this, node)), { title: `Press ${key}` });
        const reason = run.error ? el('p', { class: 'bad' }, text(run.error, 2000)) : null;
        this.details.replaceChildren(
            el('h3', {}, run.execution ? `Run ${run.execution} of ${title(session)}` : `Start of ${title(session)}`), reason ?? '',
            run.execution ? el('pre', { tabindex: '0' }, text(run.code, 65_536)) : null ?? '',
            el('p', {}, run.execution ? `${duration(run.wall_ms)}, ${count(run.fuel)} fuel` : 'The state before the first run'),
            el('div', { class: 'buttons' }, does('Fork here', this.fork, 'f'), does('Rewind to here', this.rewind, 'r'),
                does(this.other ? 'Compare with the marked state' : 'Compare…', this.compare, 'c')),
        );
        const head = node.heads[0];
        if (head && head.id !== this.shown) this.show(head.id);
    }

    async fork({ run, session }) {
        const fork = await post(`${path(session.id)}/fork`, {});
        await post(`${path(fork.id)}/rewind`, { execution: run.execution });
        say(`Forked after run ${run.execution}: ${fork.id}`);
        this.wanted = fork.id;
        await this.load();
    }

    /** What comes after the run stays, as a session of its own. */
    async rewind({ run, session, heads }) {
        if (heads.some(({ id }) => id === session.id)) {
            say('The session is in this state already');
            return;
        }
        const { kept } = await post(`${path(session.id)}/rewind`, { execution: run.execution, keep: true });
        say(`${title(session)} is back at run ${run.execution}; what came after is ${kept.id}`);
        this.wanted = session.id;
        await this.load();
    }

    async compare(node) {
        if (!this.other || this.other.id === node.id) {
            this.other = this.other ? null : node;
            this.tree.mark(this.other);
            say(this.other ? 'Choose the state to compare with' : 'Nothing is marked');
            this.choose(node);
            return;
        }
        const [from, to] = [this.other, node];
        this.other = null;
        this.tree.mark(null);
        say('Comparing…');
        const places = [from, to].map(({ run, session }) => ({ session: session.id, execution: run.execution }));
        const [before, after] = await past(places);
        this.choose(node);
        const name = ({ run, session }) => `run ${run.execution} of ${title(session)}`;
        const variables = difference(before.variables, after.variables, (a, b) => a[0] === b[0] && a[2] === b[2]);
        const files = difference(before.files, after.files, (a, b) => a.etag === b.etag && a.size === b.size && a.target === b.target);
        const failed = before.error ?? after.error;
        this.details.append(el('section', { class: 'difference', 'aria-label': 'Difference' },
            el('h3', {}, `From ${name(from)} to ${name(to)}`),
            failed ? el('p', { class: 'bad' }, `Variables cannot be read: ${text(failed, 500)}`) : null ?? '',
            changes('Variables', variables, ([type, shown]) => `${type}: ${shown}`),
            changes('Files', files, ({ size, target }) => (target ? `link to ${target}` : bytes(size)))));
        say(`${variables.length} variables and ${files.length} files differ`);
    }

    async show(id) {
        this.shown = id;
        this.wanted = null;
        const found = this.known.find(({ session }) => session.id === id || session.name === id);
        if (!found) {
            this.session.replaceChildren(el('p', {}, `There is no session ${text(id, 64)}`));
            return;
        }
        const { session } = found;
        if (!this.prompts.has(session.id)) {
            this.prompts.set(session.id, new Prompt({ session: session.id, after: () => this.act(() => this.load()) }));
        }
        const prompt = this.prompts.get(session.id);
        const inside = el('div', { class: 'inside' });
        this.session.replaceChildren(el('h3', {}, `Session ${title(session)}`),
            el('p', { class: 'note' }, `${session.status}, ${session.image}, since ${session.created}, id ${session.id}`),
            el('div', { class: 'buttons' },
                button('Variables and files', () => this.act(() => this.look(session, inside))),
                button('Suspend', () => this.act(async () => {
                    const { suspended } = await post(`${path(session.id)}/suspend`, {});
                    say(suspended ? 'Suspended' : 'It runs, or there is no room');
                    await this.load();
                })),
                button('Close session', () => this.act(async () => {
                    await send('DELETE', path(session.id));
                    this.prompts.delete(session.id);
                    this.session.replaceChildren();
                    this.shown = null;
                    await this.load();
                }), { class: 'danger' })),
            inside, prompt.element);
    }

    async look(session, inside) {
        const { variables, files, error } = await current(session.id);
        this.urls.revoke();
        const place = el('div');
        const url = fileOfSession(session.id);
        const shown = Object.values(files).slice(0, 500).map((entry) => [entry.path, entry.kind === 'link' ? `link to ${entry.target}` : bytes(entry.size),
            entry.modified ?? '', entry.kind === 'file' ? fileButtons(entry, url(null, entry.path), place, this.urls) : '']);
        inside.replaceChildren(
            error ? el('p', { class: 'bad' }, text(error, 500)) : '',
            table('Variables', ['Name', 'Type', 'Value'], Object.entries(variables).map(([name, [type, value]]) => [name, type, value])),
            table('Files of the session', ['Path', 'Size', 'Modified', 'Actions'], shown), place);
    }
}

function changes(caption, found, shown) {
    if (!found.length) return el('p', {}, `${caption}: no difference`);
    const side = (value) => (value === undefined ? '' : text(shown(value), 300));
    const kind = (before, after) => (before === undefined ? 'new' : after === undefined ? 'gone' : 'changed');
    const rows = found.slice(0, MAX_DIFFERENCES).map(([key, before, after]) => [key, kind(before, after), side(before), side(after)]);
    return el('div', {}, table(caption, ['Name', 'Change', 'Before', 'After'], rows),
        found.length > rows.length ? el('p', { class: 'note' }, `${found.length - rows.length} more`) : null);
}

export function page() {
    return new Sessions();
}
