/** A warm call through the runner, compared with a raw program that answers vai.rpc.v1. */
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRunner } from "@backplane/runner";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { createBenchContext } from "../../fixtures/bench-context.ts";
import { importEchoPackage } from "../../fixtures/echo-package.ts";
import { type EchoPeer, rawVai } from "../../peers/echo-peer.ts";
import { measureCallRows } from "./wire-warm-call.ts";

const log = createTestLogger();

/** A pooled process of an SDK plugin, called through the runner as the kernel calls it. */
const runnerPeer: EchoPeer = {
  key: "ours",
  async open() {
    const home = mkdtempSync(join(tmpdir(), "backplane-bench-"));
    mkdirSync(join(home, "scratch"));
    const { files, pack, close } = await importEchoPackage(home);
    const runner = createRunner({
      files,
      clock,
      scratch_root: join(home, "scratch"),
      host: { name: "bench", version: "1.0.0" },
      log,
    });
    const run = randomBytes(4).toString("hex");
    let next = 0;
    const listener = { event: () => undefined };
    return {
      async call(text) {
        const invocation_id = `inv_${run}${next++}`;
        const context = createBenchContext(invocation_id);
        const outcome = await runner.run(
          {
            invocation_id,
            attempt: 1,
            package: pack,
            export_id: "echo",
            op: "tool.invoke",
            body: { tool_execution_id: invocation_id, input: { text } },
            context,
            grant: context.grant,
            class: "worker",
            timeout_ms: 30_000,
            pool_key: "bench",
            binding_id: "bind_bench",
          },
          listener,
        );
        if (outcome.status !== "succeeded")
          throw new Error(`echo ended as ${outcome.status}: ${outcome.error?.message}`);
        return (outcome.result as { content: { text: string }[] }).content[0]!.text;
      },
      async close() {
        await runner.close(1_000);
        await close();
        rmSync(home, { recursive: true, force: true });
      },
    };
  },
};

export const measureRunnerWarmCall = () => measureCallRows("runner.warm-call", runnerPeer, rawVai);
