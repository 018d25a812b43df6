/** Formats the report as JUnit XML, which CI systems display as test results. */
import type { ConformanceReport, RuleResult } from "./report.ts";

export function formatJunit({
  package_id,
  version,
  protocol,
  results,
  duration_ms,
  failed,
  skipped,
}: ConformanceReport): string {
  const suite = `${package_id}@${version}`;
  const counts = `tests="${results.length}" failures="${failed}" errors="0" skipped="${skipped}"`;
  const cases = results.map((result) => formatCase(result, `${package_id}.${protocol}`));
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts} time="${formatSeconds(duration_ms)}">`,
    `  <testsuite name="${escapeXml(suite)}" ${counts} time="${formatSeconds(duration_ms)}">`,
    ...cases,
    "  </testsuite>",
    "</testsuites>",
    "",
  ].join("\n");
}

function formatCase({ id, rule, status, failure }: RuleResult, group: string): string {
  const start_tag = `    <testcase classname="${escapeXml(group)}" name="${escapeXml(`${id}: ${rule}`)}"`;
  if (status === "passed") return `${start_tag}/>`;
  if (status === "skipped") return `${start_tag}><skipped/></testcase>`;
  const { message, frame, fix, transcript, stderr } = failure!;
  const text = [
    message,
    ...(frame === null ? [] : [`frame: ${frame}`]),
    `fix: ${fix}`,
    ...transcript.map(({ at_ms, from, text: line }) => `${at_ms} ms ${from}: ${line}`),
    ...(stderr === "" ? [] : [`stderr: ${stderr}`]),
  ].join("\n");
  return `${start_tag}><failure type="${escapeXml(id)}" message="${escapeXml(message)}">${escapeXml(text)}</failure></testcase>`;
}

const formatSeconds = (ms: number) => (ms / 1_000).toFixed(3);

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Also replaces characters that XML 1.0 does not allow, because a plugin may have written them. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replace(/[&<>"]/g, (character) => ENTITIES[character]!);
}
