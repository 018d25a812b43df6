/** A turn whose store becomes unavailable waits for it and then completes normally. */

import { BackplaneError, type KernelTool } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "./test-session.ts";

const s1 = { session_id: "s1" };

/** Makes every read and write of a turn fail until the returned function is called. */
function makeUnavailable(store: Store): () => void {
  const stores = ["sessions", "runs", "invocations", "config", "policies", "bindings", "secrets"] as const;
  const restores: (() => void)[] = [];
  for (const store_name of stores) {
    const methods = store[store_name] as unknown as Record<string, unknown>;
    for (const [name, method] of Object.entries(methods)) {
      if (typeof method !== "function") continue;
      methods[name] = async () => Promise.reject(new BackplaneError("store.unavailable"));
      restores.push(() => {
        methods[name] = method;
      });
    }
  }
  return () => {
    for (const restore of restores) restore();
  };
}

verifies(
  "node.store-outage",
  "waits for a store that fails during a model call or a tool call, and loses no entry",
  async () => {
    for (const step of ["model", "tool"]) {
      const { promise, resolve } = Promise.withResolvers<void>();
      let called = 0;
      const wait: KernelTool = {
        name: "wait",
        description: "Waits.",
        parameters: { type: "object" },
        effect_class: "read_only",
        async run() {
          called++;
          if (step === "tool" && called === 1) await promise;
          return toolOk("waited");
        },
      };
      const fixture = await createTestSession({ tools: [wait] });
      const text = "/slow 60\n/say one two three\n/tool wait {}\n/then\n/tool wait {}\n/then\n/say over";
      const { run_id } = await fixture.kernel.sessions.sendMessage(user, s1, { text });
      if (step === "tool") await until(() => called === 1);
      else await until(() => fixture.events.some(({ kind }) => kind === "assistant.message.delta"));
      const restore = makeUnavailable(fixture.store);
      resolve();
      await new Promise((done) => setTimeout(done, 700));
      await expect(
        fixture.kernel.sessions.sendMessage(user, { session_id: "new" }, { text: "hello" }),
      ).rejects.toMatchObject({ code: "store.unavailable" });
      restore();
      await until(async () => (await fixture.kernel.runs.get(user, run_id)).status !== "running");
      const run = await fixture.kernel.runs.get(user, run_id);
      expect([step, run.status, run.error, run.output?.content]).toEqual([step, "completed", null, "over"]);
      expect(called).toBe(2);
      const tape = await fixture.tape();
      const entriesNamed = (name: string) => tape.filter(({ payload }) => payload.name === name);
      expect(entriesNamed("llm.call.request")).toHaveLength(3);
      expect(entriesNamed("llm.call.response")).toHaveLength(3);
      expect(tape.filter(({ kind }) => kind === "tool_call")).toHaveLength(2);
      expect(tape.filter(({ kind, payload }) => kind === "tool_result" && payload.ok === true)).toHaveLength(
        2,
      );
      expect(fixture.logged.filter(({ message }) => message.includes("were lost"))).toEqual([]);
    }
  },
  60_000,
);
