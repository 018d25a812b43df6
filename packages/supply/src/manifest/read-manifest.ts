/** Reads `vai-plugin.toml`. What is wrong is refused with file, line and what to write instead (pkg.manifest). */
import { BackplaneError, type Manifest, SIDE_TIMEOUTS } from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import { parse } from "smol-toml";
import { explainIssue, type Finding } from "./explain-issue.ts";
import { breachesOf } from "./manifest-rules.ts";
import { findLines, pathText } from "./toml-lines.ts";

export const MANIFEST_FILE = "vai-plugin.toml";

/** What an answer holds of a manifest that is wrong everywhere; lengths too, since the text is a stranger's. */
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
    ? breachesOf(parsed.data)
    : parsed.error.issues.flatMap((issue) => explainIssue(issue, raw));
  if (parsed.success && findings.length === 0) return parsed.data;
  const lines = findLines(toml);
  const issues = findings
    .map(({ path, message }) => ({
      path: cut(pathText(path), MAX_PATH),
      line: lines.of(path),
      message: cut(message, MAX_MESSAGE),
    }))
    .sort((left, right) => left.line - right.line);
  throw invalid(file, issues);
}

/** side.wire: a call of a side process has 5 s where its author says nothing else. */
function withSideDefaults(raw: unknown): unknown {
  const { exports, runtime } = raw as { exports?: unknown; runtime?: { protocol?: unknown } };
  if (runtime?.protocol !== "rterm.plugin.v1" || !Array.isArray(exports)) return raw;
  return { ...(raw as object), exports: exports.map(withSideTimeout) };
}

function withSideTimeout(item: unknown): unknown {
  if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
  const { max_timeout_ms = SIDE_TIMEOUTS.invoke_ms } = item as { max_timeout_ms?: unknown };
  const longest = typeof max_timeout_ms === "number" ? max_timeout_ms : SIDE_TIMEOUTS.invoke_ms;
  return { default_timeout_ms: Math.min(SIDE_TIMEOUTS.invoke_ms, longest), ...item };
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
