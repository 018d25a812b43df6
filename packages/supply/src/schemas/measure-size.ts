export interface ValueSize {
  bytes: number;
  values: number;
  /** Whether the value exceeds `max_bytes` or is nested too deeply; the figures are then lower bounds. */
  large: boolean;
}

const MAX_DEPTH = 256;

/** Estimates the size of a JSON value without serializing it, and stops once it exceeds `max_bytes`. */
export function measureSize(value: unknown, max_bytes: number): ValueSize {
  const size: ValueSize = { bytes: 0, values: 0, large: false };
  const waiting: { item: unknown; depth: number }[] = [{ item: value, depth: 0 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { item, depth } = next;
    size.values++;
    if (typeof item === "string") size.bytes += item.length + 3;
    else if (typeof item !== "object" || item === null) size.bytes += 6;
    else {
      size.bytes += 2;
      if (depth >= MAX_DEPTH) size.large = true;
      else if (Array.isArray(item)) {
        if (item.length > max_bytes) size.large = true;
        else for (const inner of item as unknown[]) waiting.push({ item: inner, depth: depth + 1 });
      } else {
        for (const key in item) {
          size.bytes += key.length + 4;
          if (size.bytes > max_bytes) break;
          waiting.push({ item: (item as Record<string, unknown>)[key], depth: depth + 1 });
        }
      }
    }
    if (size.large || size.bytes > max_bytes) return { ...size, large: true };
  }
  return size;
}
