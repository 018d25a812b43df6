/**
 * Computes requirement coverage from the JSON reports of the test runs. Fails for a requirement that is neither
 * cited by a passing test nor pending, for a pending requirement that is cited, and for an unknown id.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Coverage {
  required: string[];
  pending: string[];
  cited: Set<string>;
}

export function requirementIds(markdown: string): string[] {
  const ids = new Set<string>();
  for (const line of markdown.split("\n")) {
    if (!line.startsWith("- ")) continue;
    const head = line.split(" — ")[0]!;
    for (const match of head.matchAll(/\*\*([a-z0-9_-]+(?:\.[a-z0-9_-]+)+)\*\*/g)) ids.add(match[1]!);
  }
  return [...ids].sort();
}

export function citedIds(report: unknown): Set<string> {
  const cited = new Set<string>();
  const files = (report as { testResults: { assertionResults: Assertion[] }[] }).testResults;
  for (const file of files) {
    for (const result of file.assertionResults) {
      if (result.status !== "passed") continue;
      for (const id of result.meta?.verifies ?? []) cited.add(id);
    }
  }
  return cited;
}

interface Assertion {
  status: string;
  meta?: { verifies?: string[] };
}

export function findProblems({ required, pending, cited }: Coverage): string[] {
  const known = new Set(required);
  const pending_ids = new Set(pending);
  return [
    ...required
      .filter((id) => !cited.has(id) && !pending_ids.has(id))
      .map((id) => `${id}: no passing test cites it`),
    ...pending.filter((id) => cited.has(id)).map((id) => `${id}: cited, so remove it from spec/pending.txt`),
    ...pending.filter((id) => !known.has(id)).map((id) => `${id}: pending, but not in spec/requirements.md`),
    ...[...cited].filter((id) => !known.has(id)).map((id) => `${id}: cited, but not in spec/requirements.md`),
  ];
}

function main(): number {
  const required = requirementIds(readFileSync("spec/requirements.md", "utf8"));
  const pending = readFileSync("spec/pending.txt", "utf8").split("\n").filter(Boolean);
  const cited = new Set<string>();
  const reports = existsSync("reports")
    ? readdirSync("reports").filter((name) => name.endsWith(".json"))
    : [];
  if (reports.length === 0) {
    console.error("There is no report in reports/. Run `npm test` first.");
    return 1;
  }
  for (const name of reports) {
    for (const id of citedIds(JSON.parse(readFileSync(join("reports", name), "utf8")))) cited.add(id);
  }
  const errors = findProblems({ required, pending, cited });
  for (const line of errors) console.error(line);
  console.log(`requirements: ${required.length}, cited by tests: ${cited.size}, pending: ${pending.length}`);
  return errors.length === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = main();
