/** Installing packages: files stay as long as somebody counts on them. */
import type { Mutant } from "./mutant.ts";

const CONTENT = "packages/supply/src/content/content-store.ts";
const CONTENT_TEST = ["packages/supply/test/content-store.test.ts"];
const RACES = ["packages/api/test/package-races.test.ts"];

export const PACKAGE_DEFENCES: Mutant[] = [
  {
    defence: "packages: bytes of an import are held",
    file: CONTENT,
    from: "    held.set(digest, (held.get(digest) ?? 0) + 1);\n",
    to: "",
    tests: CONTENT_TEST,
  },
  {
    defence: "packages: an import during the look-up is noticed",
    file: CONTENT,
    from: " || imported.get(digest) !== last",
    to: "",
    tests: CONTENT_TEST,
  },
  {
    defence: "packages: bytes in use are not removed",
    file: CONTENT,
    from: "if (held.has(digest) || !(await unused())) return false;",
    to: "if (held.has(digest)) return false;",
    tests: CONTENT_TEST,
  },
  {
    defence: "packages: an ended install releases its bytes",
    file: "packages/kernel/src/packages/package-rows.ts",
    from: "    deps.importer.release(digest);\n",
    to: "",
    tests: RACES,
  },
];
