/** `plugin test`: packs and starts plugin folders as the gateway would, and checks the rules of their protocol. */
import { BackplaneError, type Manifest } from "@backplane/contract";
import { openPackageHome, type PackageHomeOptions } from "../package/open-package.ts";
import { readCases } from "./cases.ts";
import { CONFORMANCE_LIMITS, type ConformanceLimits } from "./limits.ts";
import { type ConformanceReport, countStatus, Findings } from "./report.ts";
import { SIDE_RULES, VAI_RULES } from "./rules.ts";
import { runSideChecks } from "./run-side.ts";
import { runVaiChecks } from "./run-vai.ts";

export interface ConformanceOptions extends PackageHomeOptions {
  /** Replaces limits of the protocol, so that a test need not wait for them. */
  limits?: Partial<ConformanceLimits>;
}

export interface ConformanceSuite {
  /** Throws `package.*`, `cli.usage` for an invalid case, or `sandbox.unavailable`. */
  run(folder: string): Promise<ConformanceReport>;
  /** Ends all processes and removes all files. */
  close(): Promise<void>;
}

export async function openConformanceSuite(options: ConformanceOptions): Promise<ConformanceSuite> {
  const home = await openPackageHome(options);
  const limits = { ...CONFORMANCE_LIMITS, ...options.limits };
  return {
    async run(folder) {
      const started = performance.now();
      const plugin = await home.open(folder);
      try {
        const { manifest, digest } = plugin;
        const { package_id, version, runtime } = manifest;
        assertTestable(manifest);
        const cases = readCases(
          folder,
          manifest.exports.map(({ id }) => id),
        );
        const side = runtime.protocol === "rterm.plugin.v1";
        const findings = new Findings(side ? SIDE_RULES : VAI_RULES);
        if (side) await runSideChecks(plugin, limits, cases, findings);
        else await runVaiChecks(plugin, { version: options.version, limits }, cases, findings);
        const results = findings.results();
        const failed = countStatus(results, "failed");
        return {
          package_id,
          version,
          digest,
          protocol: runtime.protocol,
          conforms: failed === 0,
          passed: countStatus(results, "passed"),
          failed,
          skipped: countStatus(results, "skipped"),
          results,
          duration_ms: Math.round(performance.now() - started),
        };
      } finally {
        plugin.release();
      }
    },
    close: () => home.close(),
  };
}

function assertTestable({ package_id, runtime, exports }: Manifest): void {
  const { protocol } = runtime;
  const known = protocol === "vai.rpc.v1" || protocol === "rterm.plugin.v1";
  if (known && exports.length > 0) return;
  const problem = known ? "has no exports" : `speaks ${protocol}`;
  throw new BackplaneError("cli.usage", `${package_id} ${problem}, so plugin test cannot test it.`, {
    fix: "`backplane plugin test` is for plugins with exports that speak vai.rpc.v1 or rterm.plugin.v1.",
  });
}
