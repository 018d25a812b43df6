/**
 * Detects names that a person or a model could confuse (tools.precedence). Names are compared by their skeletons, in
 * the manner of Unicode's UTS 39: compatibility forms resolved, marks and invisible characters removed, look-alikes
 * replaced by Latin letters, case ignored.
 */

/** Characters that look like one or two Latin letters or like a hyphen, in lower case and after NFKD. */
const LATIN_LOOKALIKES: Record<string, string> = {
  а: "a",
  в: "b",
  с: "c",
  ԁ: "d",
  е: "e",
  ɡ: "g",
  һ: "h",
  н: "h",
  і: "l",
  ı: "l",
  ј: "j",
  к: "k",
  ӏ: "l",
  м: "rn",
  о: "o",
  р: "p",
  ԛ: "q",
  г: "r",
  ѕ: "s",
  т: "t",
  у: "y",
  ѵ: "v",
  ԝ: "vv",
  х: "x",
  α: "a",
  β: "b",
  ε: "e",
  ι: "l",
  κ: "k",
  ν: "v",
  ο: "o",
  ρ: "p",
  τ: "t",
  υ: "u",
  χ: "x",
  "0": "o",
  "1": "l",
  "|": "l",
  i: "l",
  m: "rn",
  w: "vv",
  "‐": "-",
  "‑": "-",
  "–": "-",
  "−": "-",
};

/** Two names with the same skeleton collide. */
export function skeletonOf(name: string): string {
  // The fast path of nearly every name: ASCII needs no normalization and has few look-alikes.
  if (PLAIN.test(name))
    return name.toLowerCase().replace(ASCII_LOOKALIKES, (letter) => LATIN_LOOKALIKES[letter]!);
  const plain = name.normalize("NFKD").toLowerCase().replaceAll(INVISIBLE, "");
  return Array.from(plain, (letter) => LATIN_LOOKALIKES[letter] ?? letter).join("");
}

const PLAIN = /^[A-Za-z0-9_-]*$/;
const ASCII_LOOKALIKES = /[01imw]/g;
const INVISIBLE = /[\p{M}\p{C}\p{Z}]/gu;

/** Why a name is invalid for a tool, or null. */
export function findNameProblem(name: string): string | null {
  if (PLAIN.test(name)) return null;
  if (/[\p{C}\p{Z}]/u.test(name)) return "it contains invisible characters";
  if (name.normalize("NFKC") !== name) return "it is not in the normal form NFKC";
  return null;
}
