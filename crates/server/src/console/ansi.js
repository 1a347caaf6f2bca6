// Output of programs that write for terminals: colours are shown, other sequences are dropped.

import { el, text } from './dom.js';

const SEQUENCE = /\u001b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
/** Characters of a line that are shown. */
const MAX_LINE = 10_000;

/** Turns lines into nodes. The style lasts from one line to the next. */
export class Painter {
    constructor() {
        this.reset();
    }

    reset() {
        Object.assign(this, { colour: null, bold: false });
    }

    /** Nodes of a line without its end. */
    line(raw) {
        let line = raw.length > MAX_LINE * 2 ? raw.slice(0, MAX_LINE * 2) : raw;
        // What a carriage return leads to overwrites what stands before it.
        line = line.replace(/\r+$/, '');
        if (line.includes('\r')) line = line.slice(line.lastIndexOf('\r') + 1);
        const cut = raw.length > MAX_LINE * 2 ? `… ${raw.length - MAX_LINE * 2} more characters` : '';
        if (!line.includes('\u001b') && !this.colour && !this.bold) return [text(line, MAX_LINE) + cut];
        const nodes = [];
        let from = 0;
        const push = (part) => {
            if (!part) return;
            const name = [this.colour, this.bold && 'bold'].filter(Boolean).join(' ');
            nodes.push(name ? el('span', { class: name }, text(part, MAX_LINE)) : text(part, MAX_LINE));
        };
        for (const match of line.matchAll(SEQUENCE)) {
            push(line.slice(from, match.index));
            from = match.index + match[0].length;
            if (match[2] === 'm') this.style(match[1]);
        }
        push(line.slice(from));
        return cut ? [...nodes, cut] : nodes;
    }

    style(parameters) {
        const codes = parameters.split(/[;:]/).map(Number);
        for (let at = 0; at < codes.length; at++) {
            const code = codes[at];
            if (code === 0) this.reset();
            else if (code === 1) this.bold = true;
            else if (code === 22) this.bold = false;
            else if (code === 39) this.colour = null;
            else if (code >= 30 && code <= 37) this.colour = `c${code - 30}`;
            else if (code >= 90 && code <= 97) this.colour = `c${code - 90}`;
            else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
        }
    }
}
