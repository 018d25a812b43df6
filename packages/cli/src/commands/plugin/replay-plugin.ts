/** `plugin replay`: runs recorded calls against a candidate version, before any binding is upgraded to it. */
import type { Package, ReplayReport } from "@backplane/contract";
import { EXIT, type ExitCode } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { findOrInstallVersion } from "../../install/find-or-install-version.ts";
import { parsePackageName } from "../../packages/find-package.ts";
import { plainLine } from "../../terminal/plain-text.ts";

export interface ReplayOptions {
  limit?: number;
  tool?: string[];
  orgWide?: boolean;
}

export async function replayPlugin(
  context: CommandContext,
  options: ReplayOptions & { candidate: string },
  name: string,
): Promise<ExitCode> {
  const { package_id } = parsePackageName(name);
  const candidate = await findOrInstallVersion(context, package_id, options.candidate, options);
  const report = await requestReplay(context, candidate, options);
  context.out.data(report, () => describeReplay(report).map(plainLine).join("\n"));
  return exitCodeOfReplay(report);
}

export async function requestReplay(
  context: CommandContext,
  { id }: Package,
  { limit, tool, orgWide }: ReplayOptions,
): Promise<ReplayReport> {
  return await context.client().packages.replay(id, {
    ...(limit === undefined ? {} : { limit }),
    ...(tool === undefined ? {} : { tools: tool }),
    ...(orgWide === true ? { org_wide: true } : {}),
  });
}

const EXIT_CODES: Record<ReplayReport["verdict"], ExitCode> = {
  same: EXIT.ok,
  nothing_replayed: EXIT.ok,
  changed: EXIT.failed,
  held: EXIT.denied,
};

export function exitCodeOfReplay({ verdict }: ReplayReport): ExitCode {
  return EXIT_CODES[verdict];
}

const MAX_CALLS_SHOWN = 10;
const MAX_DIFFERENCES_SHOWN = 3;

export function describeReplay(report: ReplayReport): string[] {
  const { package_id, to_version, from_versions, counts, permissions, latency, problems, calls } = report;
  const lines = [
    `Replay of ${calls.length} recorded calls of ${package_id} ${from_versions.join(", ")} against ${to_version}, without network access or secrets.`,
    `${counts.same} same, ${counts.changed} changed, ${counts.failed} failed, ${counts.not_comparable} not comparable, ${counts.skipped} skipped.`,
  ];
  if (latency !== null)
    lines.push(
      `Median time: ${latency.current_ms.toFixed(1)} ms → ${latency.candidate_ms.toFixed(1)} ms (${latency.ratio.toFixed(2)} times).`,
    );
  for (const { binding_id, permission } of permissions.requested)
    lines.push(`The candidate requests a permission that ${binding_id} does not have: ${permission}.`);
  for (const { host, port } of permissions.attempted)
    lines.push(`The candidate tried to connect to ${host}:${port}; the version in use did not.`);
  for (const { binding_id, message } of problems)
    lines.push(`${binding_id} cannot be upgraded to the candidate: ${message}`);
  const different = calls.filter(({ result }) => result !== "same");
  for (const call of different.slice(0, MAX_CALLS_SHOWN)) {
    lines.push(`${call.invocation_id} ${call.export_id}: ${call.result}. ${call.reason ?? ""}`.trim());
    for (const { path, change, current, candidate } of call.differences.slice(0, MAX_DIFFERENCES_SHOWN))
      lines.push(
        `  ${change} ${path}: ${JSON.stringify(current ?? null)} → ${JSON.stringify(candidate ?? null)}`,
      );
  }
  if (different.length > MAX_CALLS_SHOWN)
    lines.push(`… and ${different.length - MAX_CALLS_SHOWN} more; --json shows all.`);
  lines.push(VERDICTS[report.verdict]);
  return lines;
}

const VERDICTS: Record<ReplayReport["verdict"], string> = {
  same: "Both versions return the same results.",
  nothing_replayed: "There were no recorded read-only calls to compare.",
  changed: "The candidate returns different results.",
  held: "The candidate needs a permission that the version in use does not have. An admin must approve it.",
};
