/** `plugin test`: runs the conformance suite and the author's cases, without a gateway. */
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { ConformanceReport, Failure, RuleResult } from "@backplane/authoring";
import { EXIT } from "../../command-line/exit-codes.ts";
import { version } from "../../command-line/version.ts";
import type { CommandContext } from "../../context/context.ts";
import { pluginSourceError, statSource } from "../../install/plugin-source.ts";
import type { Output } from "../../terminal/output.ts";
import { plainLine } from "../../terminal/plain-text.ts";
import { hostPlatform } from "./registry-commands.ts";

export async function testPlugin(
  context: CommandContext,
  options: { junit?: string },
  argument: string | undefined,
): Promise<number> {
  const { io, out } = context;
  const folder_text = argument ?? ".";
  const folder = resolve(io.cwd, folder_text);
  if (!statSource(folder, folder_text).isDirectory()) throw pluginSourceError(folder_text, "is not a folder");
  const { formatJunit, openConformanceSuite } = await import("@backplane/authoring");
  const suite = await openConformanceSuite({ version: version(), host: hostPlatform(), log: SILENT });
  let report: ConformanceReport;
  try {
    report = await out.during(`Testing ${folder_text}`, () => suite.run(folder));
  } finally {
    await suite.close();
  }
  if (options.junit !== undefined) await writeFile(resolve(io.cwd, options.junit), formatJunit(report));
  out.data(report, () => describeReport(out, report));
  if (!report.conforms) return EXIT.conformance;
  out.note(`Next: backplane plugin pack ${folder_text}`);
  return EXIT.ok;
}

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

function describeReport(out: Output, report: ConformanceReport): string {
  const { package_id, version, protocol, passed, failed, skipped, duration_ms, results } = report;
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped`;
  const verdict = report.conforms ? out.paint("green", "conforms") : out.paint("red", "does not conform");
  const first = `${package_id}@${version} ${verdict} to ${protocol}: ${counts} (${(duration_ms / 1_000).toFixed(1)} s)`;
  return [
    first,
    ...results.filter(({ status }) => status === "failed").map((each) => describeFailure(out, each)),
  ].join("\n\n");
}

function describeFailure(out: Output, { id, rule, failure }: RuleResult): string {
  const { message, frame, fix, transcript, stderr } = failure as Failure;
  const lines = [
    `${out.paint("red", "failed")} ${out.paint("bold", id)}: ${rule}`,
    `  what:   ${plainLine(message)}`,
    ...(frame === null ? [] : [`  frame:  ${plainLine(frame)}`]),
    `  fix:    ${fix}`,
  ];
  if (transcript.length > 0) lines.push("  frames before it:");
  for (const { at_ms, from, text } of transcript)
    lines.push(`    ${String(at_ms).padStart(5)} ms ${from === "host" ? "→" : "←"} ${plainLine(text)}`);
  if (stderr.trim() !== "")
    lines.push(
      "  stderr:",
      ...stderr
        .trim()
        .split("\n")
        .map((line) => `    ${plainLine(line)}`),
    );
  return lines.join("\n");
}
