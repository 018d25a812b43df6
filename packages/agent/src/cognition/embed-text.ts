/**
 * An embedding that needs no model: words and their three-letter sequences are hashed into a unit vector.
 * Texts that share words have similar vectors; meaning is not considered. Plugins get this embedding if no provider
 * instance has an embedding model. The vector of a text must never change, because plugins store vectors.
 */

const VECTOR_SIZE = 256;
const TRIGRAM_LENGTH = 3;
const TRIGRAM_WEIGHT = 0.5;

export function embedText(text: string): number[] {
  const vector = Array.from({ length: VECTOR_SIZE }, () => 0);
  const add = (feature: string, weight: number) => {
    const hash = fnv1a(feature);
    const slot = hash % VECTOR_SIZE;
    vector[slot] = (vector[slot] as number) + (hash & 0x80000000 ? -weight : weight);
  };
  for (const word of text
    .normalize("NFKC")
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? []) {
    add(`w ${word}`, 1);
    const marked = `^${word}$`;
    for (let at = 0; at + TRIGRAM_LENGTH <= marked.length; at++)
      add(`p ${marked.slice(at, at + TRIGRAM_LENGTH)}`, TRIGRAM_WEIGHT);
  }
  const length = Math.hypot(...vector);
  // Text without words gets a fixed vector, because a zero vector cannot be normalized.
  if (length === 0) return vector.map((_, at) => (at === 0 ? 1 : 0));
  return vector.map((value) => value / length);
}

function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}
