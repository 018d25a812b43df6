/**
 * Writes docs/errors.md from the list of error codes. `--check` fails if the page differs from the generated text.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { ERROR_CODES, type ErrorSpec } from "@backplane/contract";

const FILE = new URL("../docs/errors.md", import.meta.url);

const FAMILIES: Record<ErrorSpec["family"], string> = {
  refusal: "The gateway refused the request",
  wire: "Communication with the plugin failed",
  plugin: "The plugin reported a failure of its own",
  fault: "The gateway itself failed",
};

export function renderErrorsDoc(): string {
  const codes = Object.entries(ERROR_CODES) as [string, ErrorSpec][];
  const parts = [
    "# Error codes",
    "",
    "Generated from `packages/contract/src/errors/error-codes.ts` by `npm run docs:errors`; a test compares the two.",
    "Every failure has one of these codes. Over HTTP it arrives as",
    "`{error: {code, message, retryable, details?, request_id, doc_url}}`; `details.fix` says what to do about this",
    "specific failure. Compare the code, never the message. A running gateway shows the same list at `/docs/errors`.",
  ];
  for (const [family, title] of Object.entries(FAMILIES)) {
    parts.push(
      "",
      `## ${title}`,
      "",
      "| code | status | retry? | what happened | what to do |",
      "|---|---|---|---|---|",
    );
    for (const [code, spec] of codes) {
      if (spec.family !== family) continue;
      const retry = spec.retryable ? "yes" : "no";
      parts.push(
        `| \`${code}\` | ${spec.http} | ${retry} | ${cell(spec.description)} | ${cell(spec.remedy)} |`,
      );
    }
  }
  return `${parts.join("\n")}\n`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

function main(): void {
  const text = renderErrorsDoc();
  if (!process.argv.includes("--check")) writeFileSync(FILE, text);
  else if (readFileSync(FILE, "utf8") !== text) {
    console.error("docs/errors.md is out of date. Run `npm run docs:errors`.");
    process.exitCode = 1;
  }
}

if (import.meta.main) main();
