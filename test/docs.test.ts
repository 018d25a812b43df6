/** Documents match the tree: their paths, links, commands, codes and settings exist. */
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  ACCESS_MODES,
  ERROR_CODES,
  HEFTY_ORIGINS,
  INSTRUMENT_CATEGORIES,
  INSTRUMENT_PLATFORMS,
  INSTRUMENT_RISKS,
  ISOLATION_MODES,
  ORIGINS,
  SEMANTIC_EVENTS,
  SIDE_TIMEOUTS,
  VAI_TIMEOUTS,
} from "@backplane/contract";
import { expect, test } from "vitest";

const DOCUMENTS = globSync(["*.md", "docs/**/*.md", "spec/*.md", "examples/*/README.md"]);
const scripts = Object.keys(JSON.parse(readFileSync("package.json", "utf8")).scripts as object);
const read = (file: string) => readFileSync(file, "utf8");

test("every path that a document names exists", () => {
  const missing: string[] = [];
  for (const file of DOCUMENTS) {
    for (const [, path] of read(file).matchAll(
      /`((?:packages|docs|spec|test|examples|scripts|bench|deploy|\.ci)\/[\w./*-]*)`/g,
    )) {
      if (globSync(path!).length === 0) missing.push(`${file}: ${path}`);
    }
  }
  expect(missing).toEqual([]);
});

test("every relative link leads to a file", () => {
  const missing: string[] = [];
  for (const file of DOCUMENTS) {
    for (const [, target] of read(file).matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)) {
      if (!existsSync(join(dirname(file), target!))) missing.push(`${file}: ${target}`);
    }
  }
  expect(missing).toEqual([]);
});

test("every npm script that a document names exists", () => {
  const unknown: string[] = [];
  for (const file of DOCUMENTS) {
    for (const [, script] of read(file).matchAll(/npm run ([\w:-]+)/g)) {
      if (!scripts.includes(script!)) unknown.push(`${file}: ${script}`);
    }
  }
  expect(unknown).toEqual([]);
});

test("every command in a shell block of a document exists", () => {
  const overview = read("packages/cli/src/program/overview.ts");
  const unknown: string[] = [];
  for (const file of DOCUMENTS) {
    for (const [, block] of read(file).matchAll(/^```sh\n(.*?)^```$/gms)) {
      for (const [, command] of block!.matchAll(/(?<![\w=/-])backplane (?=([a-z][\w-]*)(?![\w:-]))/gm)) {
        if (command !== "backplane" && !overview.includes(`\n  ${command} `))
          unknown.push(`${file}: backplane ${command}`);
      }
    }
  }
  expect(unknown).toEqual([]);
});

test("the two commands of the README are what CI runs", () => {
  const readme = read("README.md");
  expect(readme).toContain("npm ci && npm start");
  expect(readme).toContain("npm ci && npm test");
  const ci = read(".ci/run");
  for (const command of ["npm ci", "npm run --silent ci:start", "npm test", "npm run --silent check"]) {
    expect(ci).toContain(command);
  }
  expect(read("scripts/ci-start.ts")).toContain('spawn("npm", ["start"]');
});

test("every error code is in docs/errors.md, and every code there is real", () => {
  const documented = [...read("docs/errors.md").matchAll(/^\| `([\w.]+)` \|/gm)].map((match) => match[1]!);
  expect(documented.toSorted()).toEqual(Object.keys(ERROR_CODES).toSorted());
});

test("every variable and key in docs/operating.md is read by the configuration, and vice versa", () => {
  const documented = [...read("docs/operating.md").matchAll(/^\| `(BACKPLANE_\w+)` \|/gm)].map(
    (match) => match[1]!,
  );
  const source = read("packages/gateway/src/config/config.ts");
  const known = new Set(
    [...source.matchAll(/BACKPLANE_\w+/g)].map((match) => match[0]).filter((name) => name !== "BACKPLANE_"),
  );
  expect(documented.toSorted()).toEqual([...known].toSorted());
});

test("spec/manifest.md lists exactly the events that exist", () => {
  const paragraph = /^A hook may subscribe to these events:.*?\n\n/ms.exec(read("spec/manifest.md"))![0];
  const listed = [...paragraph.matchAll(/`([a-z]+\.[a-z]+)`/g)].map((match) => match[1]!);
  expect(listed).toEqual([...SEMANTIC_EVENTS]);
});

test("spec/protocol.md names the time limits of the code", () => {
  const text = read("spec/protocol.md");
  const seconds = (ms: number) => `${ms / 1_000} s`;
  expect(text).toContain(`The plugin answers within ${seconds(VAI_TIMEOUTS.hello_ms)} with`);
  expect(text).toContain(`Answer within ${seconds(VAI_TIMEOUTS.cancel_grace_ms)},`);
  expect(text).toContain(`finish and exit within ${seconds(VAI_TIMEOUTS.shutdown_grace_ms)}.`);
  expect(text).toContain(`Plugin, one line within ${seconds(SIDE_TIMEOUTS.handshake_ms)}:`);
  expect(text).toContain(`The plugin exits within ${SIDE_TIMEOUTS.teardown_ms} ms, with code 0.`);
});

test("spec/instruments.md has the fields, methods and values of the code, and no others", () => {
  const text = read("spec/instruments.md");
  const cells = (from: string, to: string) =>
    [...text.slice(text.indexOf(from), text.indexOf(to)).matchAll(/^\| (`[^|]*`) \|/gm)].flatMap((row) =>
      [...row[1]!.matchAll(/`([^`]+)`/g)].map((match) => match[1]!),
    );
  const source = read("packages/supply/src/import/formats/hefty.ts");
  const fields = [.../^const FIELDS = \[(.*?)\];/ms.exec(source)![1]!.matchAll(/"([^"]+)"/g)].map(
    (match) => match[1]!,
  );
  expect(cells("## `META-INF", "`providerClass` is one of").toSorted()).toEqual(fields.toSorted());
  const methods = /^export interface InstrumentMethods \{(.*?)^\}/ms.exec(
    read("packages/contract/src/plugins/instrument.ts"),
  )![1]!;
  expect(cells("## The External protocol", "`initialize` is the first")).toEqual(
    [...methods.matchAll(/^ {2}(\w+): \[/gm)].map((match) => match[1]!),
  );
  for (const value of [
    ...INSTRUMENT_RISKS,
    ...INSTRUMENT_CATEGORIES,
    ...ACCESS_MODES,
    ...INSTRUMENT_PLATFORMS,
    ...ISOLATION_MODES,
  ])
    expect(text, value).toContain(`\`${value}\``);
});

test("docs/policy.md and spec/policy.md name every origin", () => {
  for (const file of ["docs/policy.md", "spec/policy.md"])
    for (const name of [...ORIGINS, ...Object.keys(HEFTY_ORIGINS)])
      expect(read(file), `${file}: ${name}`).toMatch(new RegExp(`\\b${name}\\b`));
});
