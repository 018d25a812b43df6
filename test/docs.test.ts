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
import { renderCliReference } from "../scripts/cli-doc.ts";
import { renderConfigReference } from "../scripts/config-doc.ts";
import { findMissingLine, parseQuickstart } from "./support/repository/quickstart.ts";
import { verifies } from "./support/verifies.ts";

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

test("the first word of every command in a shell block of a document is a command", () => {
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

test("CI runs the two commands of the README", () => {
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

test("docs/operating.md lists exactly the environment variables that the configuration reads", () => {
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

test("spec/instruments.md lists exactly the fields and methods of the code, and names every value", () => {
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

test("the glossary of ARCHITECTURE.md defines at most 15 terms", () => {
  const section = read("ARCHITECTURE.md").split("\n## Glossary\n")[1]!.split("\n## ")[0]!;
  const [, , ...rows] = section.split("\n").filter((line) => line.startsWith("|"));
  const terms = rows.flatMap((row) => row.split("|")[1]!.split(","));
  expect(terms.length).toBeGreaterThan(5);
  expect(terms.length).toBeLessThanOrEqual(15);
});

verifies("docs.audience", "docs/cli.md describes the command tree (npm run docs:cli writes it)", () => {
  expect(renderCliReference()).toBe(read("docs/cli.md"));
});

verifies(
  "docs.audience",
  "docs/configuration.md describes the configuration (npm run docs:config writes it)",
  () => {
    expect(renderConfigReference()).toBe(read("docs/configuration.md"));
  },
);

verifies(
  "docs.audience",
  "each audience has a quickstart that both indexes link and that checks its output",
  () => {
    const quickstarts = globSync("docs/quickstarts/*.md").toSorted();
    expect(quickstarts).toEqual(
      ["assistant", "author", "operator"].map((name) => `docs/quickstarts/${name}.md`),
    );
    for (const file of quickstarts) {
      expect(read("README.md"), file).toContain(`](${file})`);
      expect(read("docs/README.md"), file).toContain(`](${file.replace("docs/", "")})`);
      const steps = parseQuickstart(read(file));
      const compared = steps.filter((step) => "expected" in step && step.expected !== "");
      expect(compared.length, file).toBeGreaterThan(7);
      // Only commands that a test must not run on this machine are left out.
      const left_out = steps.flatMap((step) =>
        step.kind === "not run" ? [step.script.split(" ", 2).join(" ")] : [],
      );
      for (const command of left_out)
        expect(["npm ci", "docker run", "sudo useradd"], file).toContain(command);
    }
  },
);

verifies(
  "docs.audience",
  "the threat model names assets, attackers, controls and what is out of scope",
  () => {
    const headings = [...read("SECURITY.md").matchAll(/^## (.*)$/gm)].map((match) => match[1]);
    for (const heading of ["What is protected", "Attackers", "Controls", "Out of scope"])
      expect(headings).toContain(heading);
    expect(read("docs/README.md")).toContain("](../SECURITY.md)");
  },
);

test("a quickstart with an unknown comment or an output without a command is refused", () => {
  expect(() => parseQuickstart("<!-- not rnu: x -->\n```sh\nls\n```\n")).toThrow("line 2: unknown comment");
  expect(() => parseQuickstart("<!-- second terminal -->\n\ntext\n\n<!-- test: x -->\n")).toThrow(
    "has no block",
  );
  expect(() => parseQuickstart("```text\nout\n```\n")).toThrow("line 1: this output belongs to no command");
});

test("matches expected lines only in their order, with … for any text", () => {
  const output = "Installed acme/hello@0.1.0 (sha256:12)\nstatus:   active\n";
  expect(findMissingLine("Installed acme/hello@…\nstatus: active\n", output)).toBeNull();
  expect(findMissingLine("status: active\nInstalled …\n", output)).toBe("Installed …");
  expect(findMissingLine("status: inactive\n", output)).toBe("status: inactive");
});
