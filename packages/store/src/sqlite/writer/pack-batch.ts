/**
 * Serializes a batch for the writer thread: all its strings joined into one, and an array of numbers that describes the
 * structure. Cloning these two costs a fifth of cloning the rows (benchmark store.append). A key is written at its
 * first use and referred to by number afterwards, since the calls of a batch have few distinct keys.
 */
import type { WriteCall } from "./run-batch.ts";

export interface PackedBatch {
  text: string;
  codes: Float64Array;
}

type PlainValue = string | number | boolean | null | undefined | PlainValue[] | { [key: string]: PlainValue };

const NULL = 0;
const TRUE = 1;
const FALSE = 2;
const NUMBER = 3;
const STRING = 4;
const ARRAY = 5;
const OBJECT = 6;
const MAX_REUSED_CODES = 65_536;

/**
 * One packer per writer. It reuses its array of numbers, since growing a new one for every batch is most of the work.
 */
export function createPacker(): (calls: readonly WriteCall[]) => PackedBatch {
  let codes = new Float64Array(1_024);
  let used = 0;
  let numbers = new Map<string, number>();
  // Joined once: V8 represents a string built by concatenation as a tree, which it flattens when the string is sent.
  let strings: string[] = [];
  const addCode = (number: number): void => {
    if (used === codes.length) {
      const larger = new Float64Array(codes.length * 2);
      larger.set(codes);
      codes = larger;
    }
    codes[used++] = number;
  };
  const addKey = (key: string): void => {
    const number = numbers.get(key);
    if (number !== undefined) {
      addCode(number);
      return;
    }
    addCode(numbers.size);
    addCode(key.length);
    numbers.set(key, numbers.size);
    strings.push(key);
  };
  const add = (value: PlainValue): void => {
    if (typeof value === "string") {
      addCode(STRING);
      addCode(value.length);
      strings.push(value);
    } else if (typeof value === "number") {
      addCode(NUMBER);
      addCode(value);
    } else if (value === null || value === undefined) {
      addCode(NULL);
    } else if (typeof value === "boolean") {
      addCode(value ? TRUE : FALSE);
    } else if (Array.isArray(value)) {
      addCode(ARRAY);
      addCode(value.length);
      for (const item of value) add(item);
    } else {
      const keys = Object.keys(value);
      addCode(OBJECT);
      addCode(keys.length);
      for (const key of keys) {
        addKey(key);
        add(value[key]);
      }
    }
  };
  return (calls) => {
    used = 0;
    numbers = new Map();
    strings = [];
    add(calls as unknown as PlainValue);
    const packed = { text: strings.join(""), codes: codes.slice(0, used) };
    // A batch of megabytes is an exception, so its memory is released.
    if (codes.length > MAX_REUSED_CODES) codes = new Float64Array(1_024);
    return packed;
  };
}

const OWN_PROPERTY = { configurable: true, enumerable: true, writable: true };

export function unpackBatch({ text, codes }: PackedBatch): WriteCall[] {
  const keys: string[] = [];
  let code = 0;
  let at = 0;
  const readText = (length: number): string => {
    const from = at;
    at += length;
    return text.slice(from, at);
  };
  const readKey = (): string => {
    const number = codes[code++]!;
    if (number === keys.length) keys.push(readText(codes[code++]!));
    return keys[number]!;
  };
  const readValue = (): PlainValue => {
    const kind = codes[code++]!;
    switch (kind) {
      case STRING:
        return readText(codes[code++]!);
      case NUMBER:
        return codes[code++]!;
      case TRUE:
        return true;
      case FALSE:
        return false;
      case ARRAY: {
        const length = codes[code++]!;
        const items: PlainValue[] = [];
        for (let i = 0; i < length; i++) items.push(readValue());
        return items;
      }
      case OBJECT: {
        const length = codes[code++]!;
        const record: { [key: string]: PlainValue } = {};
        for (let i = 0; i < length; i++) {
          const key = readKey();
          const value = readValue();
          // An assignment would change the prototype instead of adding a key.
          if (key === "__proto__") Object.defineProperty(record, key, { ...OWN_PROPERTY, value });
          else record[key] = value;
        }
        return record;
      }
      default:
        return null;
    }
  };
  return readValue() as unknown as WriteCall[];
}
