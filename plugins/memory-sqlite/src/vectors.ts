/** Vectors in the database: 32-bit floats, normalized to length 1, so that the dot product of two is their cosine. */

export function packVector(vector: readonly number[]): Uint8Array {
  const length = Math.hypot(...vector);
  const packed = Float32Array.from(vector, (value) => (length === 0 ? 0 : value / length));
  return new Uint8Array(packed.buffer);
}

/** Sorted by similarity, best first. Skips vectors of another size, and those less similar than `min_score`. */
export function rankBySimilarity<T extends { data: Uint8Array }>(
  stored: readonly T[],
  query: readonly number[],
  min_score: number,
): (Omit<T, "data"> & { score: number })[] {
  const query_vector = new Float32Array(packVector(query).buffer);
  const scored: (Omit<T, "data"> & { score: number })[] = [];
  for (const { data, ...note } of stored) {
    if (data.byteLength !== query_vector.byteLength) continue;
    const aligned = data.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? data : data.slice();
    const vector = new Float32Array(aligned.buffer, aligned.byteOffset, query_vector.length);
    let score = 0;
    for (let at = 0; at < query_vector.length; at++) score += vector[at]! * query_vector[at]!;
    if (score >= min_score) scored.push({ ...note, score });
  }
  return scored.sort((a, b) => b.score - a.score);
}
