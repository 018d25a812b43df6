/** Probes a version before bindings change to it: the handshake, and the health of instruments. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type RequestChange, requestOf } from "../support/request.ts";
import { createTestRunner, until } from "../support/runner.ts";

verifies("bind.hot", "rejects a version that fails its handshake or health check", async () => {
  const data_root = mkdtempSync(join(tmpdir(), "backplane-probe-"));
  onTestFinished(() => rmSync(data_root, { recursive: true, force: true }));
  const { mark, runner } = createTestRunner({ data_root });
  const probe = async (change: RequestChange) =>
    await runner.probe!({ ...requestOf({ ...change, env: { MARK: mark } }), timeout_ms: 30_000 }).then(
      () => "starts",
      ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
    );
  const vai = (behavior: string) => probe({ entrypoint: ["node", "./vai.mjs", behavior] });
  expect(await vai("echo")).toBe("starts");
  expect(await vai("wrong-identity")).toMatch(/^handshake_failed: .*acme\/other/);
  expect(await vai("broken-until-fixed")).toMatch(/^(crashed|launch_failed|handshake_failed): /);
  const instrument = (behavior: string) =>
    probe({
      protocol: "hefty.jsonrpc",
      entrypoint: ["node", "./instrument.mjs", behavior],
      pool_key: behavior,
    });
  expect(await instrument("healthy")).toBe("starts");
  expect(await instrument("good")).toBe("handshake_failed: The instrument fail is unhealthy: fail.");
  expect(await instrument("refuses")).toMatch(/requires base-url and api-token/);
  runner.retire("bind_1");
  await until(() => runner.health().processes === 0);
});
