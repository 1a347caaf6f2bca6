'use strict';

// Converts JavaScript values to the tagged JSON of docs/reference/values.md, and back.

const { argument } = require('./errors.js');

const MAX_DEPTH = 100;
const INT = /^-?0x[0-9a-f]+$/;

function float(value) {
  if (Number.isFinite(value)) return value;
  return { $: 'float', value: Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf' };
}

function big(value) {
  const digits = (value < 0n ? -value : value).toString(16);
  return { $: 'int', value: `${value < 0n ? '-' : ''}0x${digits}` };
}

/** The ISO format of a date for Python, with microseconds if not zero. */
function moment(text) {
  return text.replace(/\.000Z$/, 'Z').replace(/(\.\d{3})Z$/, '$1000Z').replace('Z', '+00:00');
}

/** Converts a value to the tagged form. Objects with the key `$` are passed as they are. */
function tagged(value, depth = 0) {
  if (depth > MAX_DEPTH) throw argument('value', `is nested deeper than ${MAX_DEPTH}`);
  const inner = (item) => tagged(item, depth + 1);
  if (value === null || value === undefined) return null;
  if (typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return float(value);
  if (typeof value === 'bigint') return big(value);
  if (Array.isArray(value)) return value.map(inner);
  if (value instanceof Uint8Array) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    return { $: 'bytes', data: bytes.toString('base64') };
  }
  if (value instanceof Set) return { $: 'set', items: [...value].map(inner) };
  if (value instanceof Map) {
    return { $: 'dict', items: [...value].map(([key, item]) => [inner(key), inner(item)]) };
  }
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw argument('value', 'is an invalid date');
    return { $: 'datetime', value: moment(value.toISOString()) };
  }
  if (typeof value !== 'object') throw argument('value', `cannot be a ${typeof value}`);
  if (Object.hasOwn(value, '$')) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inner(item)]));
}

/**
 * Converts a value from the tagged form: bytes, large integers and floats become JavaScript types;
 * types that JavaScript lacks stay tagged.
 */
function untagged(value) {
  if (Array.isArray(value)) return value.map(untagged);
  if (value === null || typeof value !== 'object') return value;
  switch (value.$) {
    case undefined:
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, untagged(item)]));
    case 'bytes':
      return Buffer.from(value.data, 'base64');
    case 'float':
      return { nan: NaN, inf: Infinity, '-inf': -Infinity }[value.value] ?? value;
    case 'int': {
      if (!INT.test(value.value)) return value;
      const isNegative = value.value.startsWith('-');
      const size = BigInt(isNegative ? value.value.slice(1) : value.value);
      return isNegative ? -size : size;
    }
    case 'set':
    case 'frozenset':
      return new Set(value.items.map(untagged));
    case 'tuple':
      return value.items.map(untagged);
    case 'dict':
      return new Map(value.items.map(([key, item]) => [untagged(key), untagged(item)]));
    default:
      return value;
  }
}

module.exports = { tagged, untagged };
