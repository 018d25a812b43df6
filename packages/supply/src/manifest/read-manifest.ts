/** Reads `vai-plugin.toml`. Errors state the file, the line and what to write instead (pkg.manifest). */
import { BackplaneError, isObject, type Manifest, SIDE_INVOKE_MS } from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import { parse } from "smol-toml";
import { explainIssue, type Finding } from "./explain-issue.ts";
import { violationsOf } from "./manifest-rules.ts";
import { findLines, pathText } from "./toml-lines.ts";

export const MANIFEST_FILE = "vai-plugin.toml";

/** Limits of an error for a manifest with many problems. The text is untrusted, so lengths are limited too. */
const MAX_ISSUES = 50;
const MAX_PATH = 120;
const MAX_MESSAGE = 400;

interface ManifestIssue {
  path: string;
  line: number;
  message: string;
}

export function readManifest(toml: string, file: string = MANIFEST_FILE): Manifest {
  const raw = parseToml(toml, file);
  const parsed = ManifestSchema.safeParse(withSideDefaults(raw));
  const findings: Finding[] = parsed.success
    ? violationsOf(parsed.data)
    : parsed.error.issues.flatMap((issue) => explainIssue(issue, raw));
  if (parsed.success && findings.length === 0) return parsed.data;
  const lines = findLines(toml);
  const issues = findings
    .map(({ path, message }) => ({
      path: cut(pathText(path), MAX_PATH),
      line: lines.lineOf(path),
      message: cut(message, MAX_MESSAGE),
    }))
    .sort((left, right) => left.line - right.line);
  throw invalid(file, issues);
}

/** The default timeout of a call to a side process is 5 s (side.wire). */
function withSideDefaults(raw: unknown): unknown {
  const { exports, runtime } = raw as { exports?: unknown; runtime?: { protocol?: unknown } };
  if (runtime?.protocol !== "rterm.plugin.v1" || !Array.isArray(exports)) return raw;
  return { ...(raw as object), exports: exports.map(withSideTimeout) };
}

function withSideTimeout(item: unknown): unknown {
  if (!isObject(item)) return item;
  const { max_timeout_ms } = item;
  const max = typeof max_timeout_ms === "number" ? max_timeout_ms : SIDE_INVOKE_MS;
  return { default_timeout_ms: Math.min(SIDE_INVOKE_MS, max), ...item };
}

function parseToml(toml: string, file: string): unknown {
  try {
    return parse(toml);
  } catch (error) {
    const { line = 1, message = "" } = error as { line?: number; message?: string };
    const reason = (message.split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    throw invalid(file, [{ path: "", line, message: `this is not valid TOML: ${reason}` }]);
  }
}

function invalid(file: string, issues: ManifestIssue[]): BackplaneError {
  const first = issues[0] as ManifestIssue;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more, see details.issues)` : "";
  return new BackplaneError("package.invalid", `${file}:${first.line}: ${first.message}${more}`, {
    details: { file, issues: issues.slice(0, MAX_ISSUES).map((issue) => ({ ...issue })) },
  });
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
