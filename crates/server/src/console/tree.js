// Runs of sessions as trees: what it takes to know them, and how they are shown.

import { count, duration, el, firstLine, Rows, text } from './dom.js';

/** Height of a row, in pixels, as in the style sheet. */
const ROW = 30;
/** Levels that are indented. */
const MAX_INDENT = 24;

/**
 * Nodes of all sessions, from their histories. Sessions of one family share the runs that they had before
 * they were forked: those have the same number, code, time and fuel.
 */
export function build(sessions) {
    const families = new Map();
    for (const { session, runs } of sessions) {
        const name = session.family ?? session.id;
        if (!families.has(name)) families.set(name, { nodes: new Map(), roots: [] });
        const { nodes, roots } = families.get(name);
        const node = (id, run) => {
            if (!nodes.has(id)) nodes.set(id, { id: `${name} ${id}`, run, parent: undefined, children: [], heads: [], session });
            return nodes.get(id);
        };
        let last = null;
        const steps = runs.map((run) => [`${run.execution} ${run.wall_ms} ${run.fuel} ${run.success} ${run.code}`, run]);
        if (!runs.length || runs[0].execution === 1) steps.unshift(['0', { execution: 0, code: '', success: true, wall_ms: 0, fuel: 0 }]);
        for (const [id, run] of steps) {
            const one = node(id, run);
            if (one.parent === undefined && last) {
                one.parent = last;
                last.children.push(one);
                const at = roots.indexOf(one);
                if (at >= 0) roots.splice(at, 1);
            } else if (one.parent === undefined && !roots.includes(one)) {
                roots.push(one);
            }
            // Where a session is that has gone through this state.
            one.session = session;
            last = one;
        }
        last.heads.push(session);
    }
    return [...families.values()].flatMap(({ roots }) => roots);
}

/** Rows from the top down: side branches first and indented, then the longest goes on. */
export function rows(roots) {
    const size = sizes(roots);
    const found = [];
    const stack = roots.toReversed().map((node) => [node, 0]);
    while (stack.length) {
        const [node, depth] = stack.pop();
        found.push({ node, depth });
        const children = node.children.toSorted((a, b) => size.get(b) - size.get(a));
        const [main, ...others] = children;
        if (main) stack.push([main, depth]);
        for (const other of others) stack.push([other, depth + 1]);
    }
    return found;
}

function sizes(roots) {
    const order = [];
    const stack = [...roots];
    while (stack.length) {
        const node = stack.pop();
        order.push(node);
        stack.push(...node.children);
    }
    const size = new Map();
    for (const node of order.reverse()) {
        size.set(node, node.children.reduce((sum, child) => sum + size.get(child), 1));
    }
    return size;
}

/** The tree on the page, with the keyboard of a tree. Only rows in sight are in the document. */
export class Tree {
    /** @param on functions by what a row is asked for: `choose`, `fork`, `rewind`, `compare` */
    constructor(on) {
        Object.assign(this, { on, list: [], at: 0, marked: null });
        this.element = el('div', {
            class: 'tree', role: 'tree', 'aria-label': 'Runs', tabindex: '0',
            onkeydown: (event) => this.key(event), onfocus: () => this.list.length && this.focus(this.at),
        });
        this.view = new Rows(this.element, ROW, (at) => this.row(at));
    }

    set(roots) {
        const chosen = this.list[this.at]?.node.id;
        this.list = rows(roots);
        this.at = Math.max(0, this.list.findIndex(({ node }) => node.id === chosen));
        this.view.set(this.list.length);
    }

    get chosen() {
        return this.list[this.at]?.node;
    }

    row(at) {
        const { node, depth } = this.list[at];
        const { run } = node;
        const title = run.execution ? firstLine(run.code) || 'no code' : 'start';
        const heads = node.heads.slice(0, 8).map((session) => el('b', { class: 'head' }, text(session.name ?? session.id.slice(0, 8), 64)));
        const state = run.success ? 'ok' : 'failed';
        const dot = el('span', { class: `dot ${run.success ? 'good' : 'bad'}`, title: state }, run.success ? '●' : '✕');
        const cost = run.execution ? el('small', {}, `${duration(run.wall_ms)} · ${count(run.fuel)} fuel`) : null;
        const row = el('div', {
            class: 'row', role: 'treeitem', tabindex: '-1', 'aria-level': depth + 1, 'aria-posinset': at + 1,
            'aria-setsize': this.list.length, 'aria-selected': String(at === this.at),
            onclick: () => this.focus(at),
        }, dot, el('span', { class: 'number' }, `#${run.execution}`), el('code', {}, title), heads,
        node.heads.length > 8 ? el('b', { class: 'head' }, `+${node.heads.length - 8}`) : null, cost);
        row.style.paddingInlineStart = `${8 + Math.min(depth, MAX_INDENT) * 18}px`;
        row.classList.toggle('branch', depth > 0);
        row.classList.toggle('marked', node.id === this.marked);
        return row;
    }

    focus(at) {
        if (!this.list[at]) return;
        this.view.shown.get(this.at)?.setAttribute('aria-selected', 'false');
        this.at = at;
        this.view.focus(at);
        this.view.shown.get(at).setAttribute('aria-selected', 'true');
        this.on.choose(this.list[at].node);
    }

    key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
        const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
        const act = { f: 'fork', r: 'rewind', c: 'compare' }[event.key];
        if (event.key in moves) {
            this.focus(Math.min(this.list.length - 1, Math.max(0, this.at + moves[event.key])));
        } else if (act && this.chosen) {
            this.on[act](this.chosen);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }

    /** Marks a node that others are compared with. */
    mark(node) {
        this.marked = node?.id ?? null;
        this.view.redraw();
    }
}
