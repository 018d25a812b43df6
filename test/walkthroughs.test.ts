/**
 * ARCHITECTURE.md lists the files that a reader opens to follow a call, a turn and an installation. The lists must stay
 * short, and a reader must be able to get from each file to the next ones.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";

interface Step {
  file: string;
  /** How the call gets to the file, unless an earlier file imports it. */
  text: string;
}

const architecture = readFileSync("ARCHITECTURE.md", "utf8");
const ports = globSync("packages/ports/src/**/*.ts").map((file) => readFileSync(file, "utf8"));

const STEP = /^\d+\. `([^`]+)`(?:: (.*(?:\n {3}.*)*))?/gm;
const IMPORTED = /(?:from|import\()\s*"([^"]+)"/g;
/** Ways that no import shows. */
const CROSSING = /\b(?:over HTTP|by an event of the bus|in the writer's thread)$/;

function readSteps(document: string, title: string): Step[] {
  const from = document.indexOf(`### ${title}\n`);
  expect(from).toBeGreaterThan(0);
  const section = document.slice(from + 4).split(/\n###? /)[0]!;
  return [...section.matchAll(STEP)].map(([, file, text]) => ({
    file: file!,
    text: (text ?? "").replace(/\n +/g, " "),
  }));
}

function listImports(file: string): string[] {
  const from = [...readFileSync(file, "utf8").matchAll(IMPORTED)].map(([, specifier]) => specifier!);
  return from.flatMap((specifier) => {
    if (specifier.startsWith(".")) return [join(dirname(file), specifier)];
    const [, name] = /^@backplane\/([a-z-]+)$/.exec(specifier) ?? [];
    // A module exports its files through its index.
    return name === undefined || file.endsWith("/index.ts")
      ? []
      : listImports(`packages/${name}/src/index.ts`);
  });
}

/** The steps that a reader cannot reach from an earlier one. */
function findGaps(steps: readonly Step[]): string[] {
  const reached = new Set<string>();
  const gaps = steps.filter(({ file, text }, at) => {
    const [, port] = /through the port `([A-Za-z]+)`$/.exec(text) ?? [];
    const [, through] = /\bfrom `([^`]+)`/.exec(text) ?? [];
    const is_reached =
      at === 0 ||
      reached.has(file) ||
      CROSSING.test(text) ||
      (port !== undefined && ports.some((source) => source.includes(`export interface ${port} {`))) ||
      (through !== undefined && listImports(through).includes(file));
    for (const imported of listImports(file)) reached.add(imported);
    return !is_reached;
  });
  return gaps.map(({ file }) => file);
}

describe.each([
  ["A tool call from the socket to the settled record", 20],
  ["An agent turn with one tool call, beyond the files above", 16],
  ["`npm:` install from the command to the committed rows", 14],
])("the walkthrough '%s'", (title, max) => {
  const steps = readSteps(architecture, title);
  const files = steps.map(({ file }) => file);

  test(`has at most ${max} files, and all exist`, () => {
    expect(files.filter((file) => !existsSync(file))).toEqual([]);
    expect(new Set(files).size).toBe(files.length);
    expect(files.length).toBeGreaterThan(5);
    expect(files.length).toBeLessThanOrEqual(max);
  });

  test("leads from each file to the next ones", () => {
    expect(findGaps(steps)).toEqual([]);
  });
});

test("a file that no earlier one leads to is found", () => {
  const steps = readSteps(
    `
### Title
1. \`packages/api/src/server/create-api.ts\`: accepts
2. \`packages/api/src/server/register-routes.ts\`: answers
3. \`packages/door/src/invoke/invoke.ts\`: the steps, through the port \`Missing\`
4. \`packages/door/src/admission/rules.ts\`: the rules, from \`packages/door/src/invoke/run.ts\`
5. \`packages/door/src/open/open.ts\`: opens
6. \`packages/door/src/admission/admit.ts\`
`,
    "Title",
  );
  expect(findGaps(steps)).toEqual([
    "packages/door/src/invoke/invoke.ts",
    "packages/door/src/admission/rules.ts",
    "packages/door/src/admission/admit.ts",
  ]);
});
