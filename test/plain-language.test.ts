/**
 * Words that readers of this project had to translate must not come back: retired names, planning words for modules,
 * "is no X" for "is not an X", test titles that start with a relative clause, types named with a participle alone, and
 * error messages that are not sentences (CONTRIBUTING.md). Nor must locals named `given`, "inside of", "also if" for
 * "even if", ", also in" for "including", "of ours", and comments that explain a value with a colon ("Null: ...").
 */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

interface Rule {
  name: string;
  pattern: RegExp;
  /** The rule applies only to these files. */
  only?: RegExp;
  /** Files or folders whose matches are accepted, each with a reason. */
  allowed?: readonly string[];
}

const TITLE = String.raw`\b(?:test|it|describe|verifies)(?:\.\w+)*(?:\([^()\n]*\))?\(\s*(?:\[[^\]]*\],\s*|"[\w.-]+",\s*)?["\x60]`;

const IRREGULAR =
  "Ran|Born|Shown|Kept|Made|Sent|Seen|Done|Held|Told|Found|Given|Taken|Gone|Said|Bound|Left|Lost|Read";

const RULES: readonly Rule[] = [
  {
    name: "a retired name",
    pattern:
      /\b(?:letGo|goOn|takeUp|leadOut|wayOut|way_out|startLeash|chairOf|openHouse|openTalk|furnish|whenThere)\b/,
  },
  {
    name: "a planning word; say module or folder",
    pattern:
      /\b(?:this|that|each|every|another|other|wire|runner|kernel) rooms?\b|'s room\b|\bhouse rules?\b/i,
  },
  {
    name: '"is no X"; say "is not an X"',
    pattern: /(?<!\b(?:there|must|may) )\b(?:is|are|was|were) no (?!longer\b|more\b|such\b)[a-z]/i,
    allowed: [
      // Titles and texts that are data of a test.
      "packages/door/test/calls/redact.test.ts",
      "packages/servers/test/sign-ins/token-request.test.ts",
    ],
  },
  {
    name: "a title that starts with a relative clause; name the subject or start with a verb",
    only: /\/test\//,
    pattern: new RegExp(`${TITLE}(?:what|who|whom|whose|whoever|whatever)\\b`, "i"),
  },
  {
    name: "a comment that starts with a relative clause or a genitive; name the thing first",
    only: /\.tsx?$/,
    pattern: /\/\*\*\s+(?:\* )?(?:What|Who|Whom|Whose|Whoever|Whatever|Of) [a-z`]/,
  },
  {
    name: "a type named with a participle alone; name the thing, such as RefusedCall or CopyResult",
    only: /\.tsx?$/,
    pattern: new RegExp(
      String.raw`\b(?:interface|type|class) (?!(?:Need|Seed|Speed|Feed)\b)(?:[A-Z][a-z]+ed|${IRREGULAR})\b(?=<| (?:=|\{|extends|implements))`,
    ),
    // The branded values of the steps of the door (ARCHITECTURE.md).
    allowed: [
      "packages/door/src/admission/admit.ts",
      "packages/door/src/invoke/approve.ts",
      "packages/door/src/invoke/record.ts",
      "packages/door/src/open/open.ts",
    ],
  },
  {
    name: "an error message that is not a sentence; start it with a capital letter and end it with a period",
    only: /\/src\//,
    pattern: /new BackplaneError\(\s*[\w.":]+,\s*["`](?:the|a|an|there|this|no|only) /,
    // Reasons that are shown after the name of the plugin.
    allowed: ["packages/agent/src/plugins/adapters.ts", "packages/agent/src/plugins/mounts.ts"],
  },
  {
    name: "a variable named `given`; name its content, such as signatures or reply",
    only: /\.(?:tsx?|mjs|js)$/,
    pattern: /\b(?:const|let|var) given\b|[(,] ?given(?=\)? =>|[,:] |\) \{)|: given = /,
    // A field of the details of a public error.
    allowed: ["packages/registry/src/installations/import-parts.ts"],
  },
  { name: '"inside of"; say "inside"', pattern: /\binside of\b/i },
  {
    name: '"also if"; say "even if" or "including when"',
    pattern: /\balso (?:if|when|while|after|across|without|under)\b/,
  },
  {
    name: '", also in ..."; say "including", "even" or "or"',
    pattern:
      /, also (?:an?|at|because|before|behind|by|concurrently|for|from|in|inside|nested|of|one|outside|right|several|side|the|those|through|to|together|what|where|with|none|call)\b/,
  },
  { name: '"a code of ours"; say "our own code"', pattern: /\b(?:bugs?|codes?|files?|messages?) of ours\b/ },
  {
    name: 'a comment "Null: ..."; say "Null if ..." or "Null for ..."',
    only: /\.tsx?$/,
    pattern: /(?:(?:\/\*\*|\*|\.) (?:Null|False|Undefined)|; (?:null|undefined|0)): [a-z]/,
  },
  {
    name: "another spelling of -ize; this project writes organization, recognize, summarize",
    pattern:
      /(?:organi|recogni|normali|seriali|summari|initiali|authori|customi|optimi)s(?:e[ds]?|ing|ation)/i,
  },
];

/** Generated files repeat their sources, and requirements keep the wording of their source documents. */
const EXCLUDED = [
  "**/node_modules/**",
  "**/dist/**",
  "docs/api.md",
  "examples/*/{bin/*.mjs,lib/**}",
  "spec/requirements.md",
  "test/plain-language.test.ts",
];

const FILES = globSync(
  [
    "*.md",
    "docs/**/*.md",
    "spec/*.md",
    "{packages,plugins,examples,bench,scripts,test}/**/*.{ts,tsx,mjs,js,py,java,c,sh,css,md}",
  ],
  { exclude: EXCLUDED },
).toSorted();

/** Every match as `file:line: rule: text`. */
function problems(file: string, text: string): string[] {
  const matches: string[] = [];
  for (const { name, pattern, only, allowed = [] } of RULES) {
    if (only?.test(`/${file}`) === false || allowed.some((path) => file.startsWith(path))) continue;
    for (const match of text.matchAll(new RegExp(pattern, `${pattern.flags}g`))) {
      const line = text.slice(0, match.index).split("\n").length;
      matches.push(`${file}:${line}: ${name}: ${match[0].replaceAll(/\s+/g, " ")}`);
    }
  }
  return matches;
}

/**
 * Names of functions and methods such as `statusOf` that take several arguments; a projection has one, any other name is a
 * verb.
 */
function wideProjections(text: string): string[] {
  const heads = text.matchAll(/(\bfunction |^ +(?:async )?#?)(?!is|one)(\w+Of|of)(?:<[^()]*>|: )?\(/gm);
  return [...heads].flatMap(({ 0: head, 1: start, 2: name, index }) => {
    const rest = text.slice(index + head.length).replaceAll("=>", "  ");
    let [depth, at, wide] = [1, 0, false];
    for (; depth > 0; at++) {
      if ("([{<".includes(rest[at]!)) depth += 1;
      else if (")]}>".includes(rest[at]!)) depth -= 1;
      else if (depth === 1 && /^,\s*[^\s)]/.test(rest.slice(at, at + 100))) wide = true;
    }
    // A method is declared with a type; anything else is a call.
    const declared = start === "function " || /^(?:: | {4})/.test(rest.slice(at, at + 4));
    return wide && declared ? [name!] : [];
  });
}

test("tracked text contains none of the retired words and patterns", () => {
  expect(FILES.length).toBeGreaterThan(1_000);
  expect(FILES.flatMap((file) => problems(file, readFileSync(file, "utf8")))).toEqual([]);
});

test("a function named like a projection has one argument", () => {
  // The function is public.
  const allowed = ["packages/sdk/src/kernel/llm-vendor.ts"];
  const sources = FILES.filter(
    (file) => /\/src\/.*\.ts$/.test(file) && !allowed.some((path) => file.startsWith(path)),
  );
  const wide = sources.flatMap((file) =>
    wideProjections(readFileSync(file, "utf8")).map((name) => `${file}: ${name}`),
  );
  expect(wide).toEqual([]);
  expect(wideProjections("function keyOf(row: Row, { a, b }: Pair): string {")).toEqual(["keyOf"]);
  expect(wideProjections("  queueOf(scope: Scope, id: string): Queue {")).toEqual(["queueOf"]);
  expect(wideProjections("    queueOf(scope, id),")).toEqual([]);
  expect(wideProjections("function idOf<T>({ a, b }: Map<A, B>): string { return join(a, b); }")).toEqual([]);
});

test("every rule finds its pattern and accepts the plain form", () => {
  const bad = [
    "await runner.letGo(id);",
    "// Nothing is imported from another room.",
    "acme/hello is no package",
    'verifies(\n  "inv.record",\n  "what was recorded stays",',
    'test("who may not enter is answered with 403", async () => {});',
    "export interface Refused {",
    "/** Of the new row. */",
    "/**\n * What a session sees of a harness.",
    "const given = await ask(questions);",
    "function select(entry: Entry, given: readonly string[]) {",
    "// The file is inside of the folder.",
    "// The archive is complete, also if the disk is full.",
    "// Every node is counted, also one that replaces another.",
    "// The original error has a code of ours.",
    "/** The project that stored it; null: the whole org. */",
    "/** Null: the run has ended. */",
    "/** The key of an organisation. */",
  ];
  expect(bad.map((text) => problems("packages/door/test/x.ts", text).length)).toEqual(bad.map(() => 1));
  const message = 'throw new BackplaneError(\n  "policy.denied",\n  "only an admin may do this",';
  expect(problems("packages/door/src/x.ts", message)).toHaveLength(1);
  const good = [
    "await runner.releaseToOtherNode(id);",
    "This machine has no room for another process. There is no fallback, and it is no longer offered.",
    'test("rejects an upgrade request without credentials", () => {});',
    "interface RefusedCall { shown: boolean }",
    "/** The generation of the new row. */",
    "/** Null if the run has ended, even if no clock is given, inside the folder. */",
    'new BackplaneError("policy.denied", "Only an admin may do this.")',
  ];
  expect(good.flatMap((text) => problems("packages/door/test/x.ts", text))).toEqual([]);
});
